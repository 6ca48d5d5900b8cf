//! Takes the socket on which systemd listens for the service, and which systemd passes on when a client connects
//! (sd_listen_fds(3)).
#![expect(unsafe_code, reason = "a descriptor that another process opened has no owner yet")]

use std::{
    io,
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::net,
    },
};

use tokio::net::UnixListener;

/// Returns the socket; `None` if systemd passed none.
pub(super) fn inherited() -> io::Result<Option<UnixListener>> {
    let Some(descriptor) = sd_notify::listen_fds()?.next() else { return Ok(None) };
    // SAFETY: systemd opened the descriptor for this process alone (LISTEN_PID), and this function is called once.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let listener = net::UnixListener::from(descriptor);
    // Fails unless the descriptor is a unix socket.
    listener.local_addr()?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener).map(Some)
}
