//! Connections whose dead peers the kernel notices: a rabbit without power says nothing any more, and nobody here runs a timer.

use std::{io, os::fd::AsFd};

use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::TcpStream;

/// After so many seconds without a word the kernel probes the peer.
const IDLE: u32 = 10;
/// Seconds between two probes.
const BETWEEN: u32 = 5;
/// Probes without an answer after which the peer is gone.
const PROBES: u32 = 4;
/// What was sent may be without an answer for so many milliseconds: meanwhile the kernel does not probe (tcp(7),
/// `TCP_USER_TIMEOUT`).
const UNACKNOWLEDGED: u32 = 30_000;

/// Has the kernel notice within half a minute that the peer is gone, and send each message at once.
pub(crate) fn watched(tcp: &TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let socket = tcp.as_fd();
    setsockopt(&socket, sockopt::KeepAlive, &true)?;
    setsockopt(&socket, sockopt::TcpKeepIdle, &IDLE)?;
    setsockopt(&socket, sockopt::TcpKeepInterval, &BETWEEN)?;
    setsockopt(&socket, sockopt::TcpKeepCount, &PROBES)?;
    setsockopt(&socket, sockopt::TcpUserTimeout, &UNACKNOWLEDGED)?;
    Ok(())
}
