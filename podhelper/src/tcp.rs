//! Makes the kernel notice dead peers. A rabbit that has lost its power sends nothing any more, and podhelper
//! itself has no timer.

use std::{io, os::fd::AsFd};

use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::TcpStream;

/// Seconds without traffic after which the kernel probes the peer.
const IDLE: u32 = 10;
/// Seconds between two probes.
const BETWEEN: u32 = 5;
/// Number of unanswered probes after which the kernel treats the peer as gone.
const PROBES: u32 = 4;
/// Milliseconds for which sent data may stay unacknowledged. During this time the kernel does not probe
/// the peer (tcp(7), `TCP_USER_TIMEOUT`).
const UNACKNOWLEDGED: u32 = 30_000;

/// Makes the kernel notice within half a minute that the peer is gone, and send each message without delay.
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
