//! The network of a run where no Kubernetes has one for pods: each pod has one address, which follows from its place, and finds
//! the others by a file.

use std::{fmt::Write, net::Ipv4Addr};

use super::host;
use crate::{names, run::Run};

/// What the network is called in a pod.
pub const INTERFACE: &str = "mpi0";
/// Bits of an address that all pods have in common. The block is for tests of network devices (RFC 2544), and no site's own.
pub const PREFIX: u8 = 15;

const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The address of the pod at this place; none beyond the block.
#[must_use]
pub fn address(place: u32) -> Option<Ipv4Addr> {
    let last = u32::from(FIRST) | (u32::MAX >> PREFIX);
    let bits = u32::from(FIRST).checked_add(place)?;
    (bits < last).then(|| Ipv4Addr::from(bits))
}

/// The hosts of a run by the places of their pods, and the rabbit of each: the launcher, and the workers.
pub(crate) fn pods<'a>(run: &'a Run<'_>) -> impl Iterator<Item = (String, &'a str)> {
    let launcher = run.rabbits().next().map(|rabbit| (names::launcher(run.workflow), rabbit));
    let worker = |(index, rabbit)| (names::worker(run.workflow, index), rabbit);
    launcher.into_iter().chain(run.rabbits().enumerate().map(worker))
}

/// The file in which each pod finds all of them.
pub(crate) fn file(run: &Run<'_>) -> String {
    let mut text = "127.0.0.1\tlocalhost\n".to_owned();
    for ((name, _), address) in pods(run).zip((0..).map_while(address)) {
        let full = host(run, &name);
        writeln!(text, "{address}\t{full} {name}.{} {name}", run.workflow)
            .expect("a text takes text");
    }
    text
}
