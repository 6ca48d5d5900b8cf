//! Lets the kernel notice dead peers: a rabbit without power sends nothing any more, and podhelper has no timer.

use std::{io, os::fd::AsFd};

use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::TcpStream;

/// Idle seconds after which the kernel probes the peer.
const IDLE: u32 = 10;
/// Seconds between two probes.
const BETWEEN: u32 = 5;
/// Unanswered probes after which the peer counts as gone.
const PROBES: u32 = 4;
/// Milliseconds that sent data may stay unacknowledged; meanwhile the kernel does
/// not probe (tcp(7), `TCP_USER_TIMEOUT`).
const UNACKNOWLEDGED: u32 = 30_000;

/// Makes the kernel notice within half a minute that the peer is gone, and send each message at once.
pub(crate) fn detect_dead_peers(tcp: &TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let socket = tcp.as_fd();
    setsockopt(&socket, sockopt::KeepAlive, &true)?;
    setsockopt(&socket, sockopt::TcpKeepIdle, &IDLE)?;
    setsockopt(&socket, sockopt::TcpKeepInterval, &BETWEEN)?;
    setsockopt(&socket, sockopt::TcpKeepCount, &PROBES)?;
    setsockopt(&socket, sockopt::TcpUserTimeout, &UNACKNOWLEDGED)?;
    Ok(())
}
