use std::{collections::BTreeSet, net::TcpListener};

use anyhow::Context;

/// Returns a free TCP port of 127.0.0.1 for a server that is started later. The port is below those that Linux gives to
/// outgoing connections (`ip_local_port_range`, 32768 to 60999), since one of the tests' many clients would sooner or later
/// get it before the server binds it.
///
/// # Errors
/// When a hundred ports in turn are in use.
pub fn free_port() -> anyhow::Result<u16> {
    (0..100)
        .map(|_| fastrand::u16(10_000..32_000))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .context("no free TCP port found")
}

/// Returns three different free ports.
pub(crate) fn three_free_ports() -> anyhow::Result<[u16; 3]> {
    let mut ports = BTreeSet::new();
    while ports.len() < 3 {
        ports.insert(free_port()?);
    }
    let mut ports = ports.into_iter();
    Ok([(); 3].map(|()| ports.next().unwrap_or_default()))
}
