//! The network of a run on sites where Kubernetes provides no pod network. A pod's index in the run determines the
//! pod's address, and a hosts file names the other pods.

use std::{fmt::Write, net::Ipv4Addr};

use super::host;
use crate::{names, run::Run};

/// Name of the network interface in a pod.
pub const INTERFACE: &str = "mpi0";
/// Prefix length of the pods' addresses. The address block is reserved for benchmarks of network devices (RFC 2544), so
/// no site uses it.
pub const PREFIX: u8 = 15;

const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Returns the address of the pod with this index; `None` if the block has no such address.
#[must_use]
pub fn address(place: u32) -> Option<Ipv4Addr> {
    let last = u32::from(FIRST) | (u32::MAX >> PREFIX);
    let bits = u32::from(FIRST).checked_add(place)?;
    (bits < last).then(|| Ipv4Addr::from(bits))
}

/// Returns the host name and the rabbit of each pod, in the order of the pods' indexes: the launcher, then the workers.
pub(crate) fn pods<'a>(run: &'a Run<'_>) -> impl Iterator<Item = (String, &'a str)> {
    let launcher = run.rabbits().next().map(|rabbit| (names::launcher(run.service), rabbit));
    let worker = |(index, rabbit)| (names::worker(run.service, index), rabbit);
    launcher.into_iter().chain(run.rabbits().enumerate().map(worker))
}

/// Returns the text of the hosts file, which has the names and addresses of all pods of the run.
pub(crate) fn hosts_file(run: &Run<'_>) -> String {
    let mut text = "127.0.0.1\tlocalhost\n".to_owned();
    for ((name, _), address) in pods(run).zip((0..).map_while(address)) {
        let full = host(run, &name);
        writeln!(text, "{address}\t{full} {name}.{} {name}", run.service)
            .expect("writing into a string does not fail");
    }
    text
}
