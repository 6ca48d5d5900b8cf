//! The network of a run on sites where no Kubernetes has one for pods: the place of each pod determines its address,
//! and a hosts file names the others.

use std::{fmt::Write, net::Ipv4Addr};

use super::host;
use crate::{names, run::Run};

/// Name of the network interface in a pod.
pub const INTERFACE: &str = "mpi0";
/// Prefix length of the pods' addresses. The block is for benchmarks of network devices (RFC 2544): no site uses it.
pub const PREFIX: u8 = 15;

const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Returns the address of the pod at this place; `None` beyond the block.
#[must_use]
pub fn address(place: u32) -> Option<Ipv4Addr> {
    let last = u32::from(FIRST) | (u32::MAX >> PREFIX);
    let bits = u32::from(FIRST).checked_add(place)?;
    (bits < last).then(|| Ipv4Addr::from(bits))
}

/// Returns the host name and the rabbit of each pod, by place: the launcher, then the workers.
pub(crate) fn pods<'a>(run: &'a Run<'_>) -> impl Iterator<Item = (String, &'a str)> {
    let launcher = run.rabbits().next().map(|rabbit| (names::launcher(run.workflow), rabbit));
    let worker = |(index, rabbit)| (names::worker(run.workflow, index), rabbit);
    launcher.into_iter().chain(run.rabbits().enumerate().map(worker))
}

/// Returns the hosts file of the pods.
pub(crate) fn hosts_file(run: &Run<'_>) -> String {
    let mut text = "127.0.0.1\tlocalhost\n".to_owned();
    for ((name, _), address) in pods(run).zip((0..).map_while(address)) {
        let full = host(run, &name);
        writeln!(text, "{address}\t{full} {name}.{} {name}", run.workflow)
            .expect("a text takes text");
    }
    text
}
