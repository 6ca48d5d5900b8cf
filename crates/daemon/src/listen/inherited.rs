//! A socket on which systemd listens, and which it hands over to the service when a client connects (sd_listen_fds(3)).
#![expect(unsafe_code, reason = "a descriptor that another process opened has no owner yet")]

use std::{
    io,
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::net,
    },
};

use tokio::net::UnixListener;

/// The socket; `None` when systemd handed over none.
pub(super) fn inherited() -> io::Result<Option<UnixListener>> {
    let Some(descriptor) = sd_notify::listen_fds()?.next() else { return Ok(None) };
    // SAFETY: systemd opened the descriptor for this process alone (LISTEN_PID), and this function is called once.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let listener = net::UnixListener::from(descriptor);
    // Nothing but a unix socket has such an address.
    listener.local_addr()?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener).map(Some)
}
