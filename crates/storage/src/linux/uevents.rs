//! The kernel's device events, from a netlink socket (netlink(7), NETLINK_KOBJECT_UEVENT).
//!
//! Group 1 is the kernel's own and needs no udevd. The `udev` crate needs libudev to build and to run, and its monitor
//! cannot move to another thread; this module uses four words of an event.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::Duration,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{
        AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recvfrom, setsockopt,
        socket, sockopt,
    },
};

/// The multicast group of the kernel's own events, before udevd has seen them.
const KERNEL: u32 = 1;
/// Receive buffer in bytes, for some thousand events: a chassis that powers up has eighteen drives with as many
/// functions each.
const ROOM: usize = 8 << 20;
/// An event is shorter (UEVENT_BUFFER_SIZE, include/linux/kobject.h, and its header).
const LONGEST: usize = 8192;

/// A socket that receives the kernel's device events.
#[derive(Debug)]
pub struct Uevents(OwnedFd);

/// What the socket received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// An event.
    Event(Uevent),
    /// The kernel dropped events because the buffer was full: observe all devices again.
    Overrun,
}

/// An event. It proves only that something changed; the device itself shows its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uevent {
    /// `add`, `remove`, `change`, `bind`, `unbind`, …
    pub action: String,
    /// The device's path in sysfs.
    pub path: String,
    /// `pci`, `nvme`, `block`, …
    pub subsystem: String,
    /// Of a disk: it became read-only or writable (`DISK_RO`, block/genhd.c).
    pub writes_changed: bool,
}

impl Uevents {
    /// Receives events from now on.
    ///
    /// # Errors
    /// When the kernel refuses the socket.
    pub fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let protocol = SockProtocol::NetlinkKObjectUEvent;
        let fd = socket(AddressFamily::Netlink, SockType::Datagram, flags, protocol)?;
        // Without the privilege the default buffer remains, and an overrun is reported.
        let _ = setsockopt(&fd, sockopt::RcvBufForce, &ROOM);
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, KERNEL))?;
        Ok(Self(fd))
    }

    /// Waits until an event arrives or `patience` is over, without it for ever. Returns whether one arrived.
    ///
    /// # Errors
    /// When the socket cannot be polled.
    pub fn wait(&self, patience: Option<Duration>) -> io::Result<bool> {
        let timeout = patience.map(PollTimeout::try_from).transpose();
        let timeout = timeout.unwrap_or(Some(PollTimeout::MAX)).unwrap_or(PollTimeout::NONE);
        match poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns the next event, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` when there is none; any other when the socket is unusable.
    pub fn next(&self) -> io::Result<Received> {
        let mut buffer = [0; LONGEST];
        loop {
            match recvfrom::<NetlinkAddr>(self.0.as_raw_fd(), &mut buffer) {
                Ok((length, Some(from))) if from.pid() == 0 => {
                    if let Some(event) = Uevent::parse(&buffer[..length]) {
                        return Ok(Received::Event(event));
                    }
                }
                // A message from another process than the kernel.
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::ENOBUFS) => return Ok(Received::Overrun),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Uevent {
    /// Parses `action@path`, then words that each end with a zero byte (lib/kobject_uevent.c, `kobject_uevent_env`).
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let mut words = text.split('\0');
        let (action, path) = words.next()?.split_once('@')?;
        let words: Vec<_> = words.collect();
        let subsystem = words.iter().find_map(|word| word.strip_prefix("SUBSYSTEM="))?;
        Some(Self {
            action: action.to_owned(),
            path: path.to_owned(),
            subsystem: subsystem.to_owned(),
            writes_changed: words.iter().any(|word| word.starts_with("DISK_RO=")),
        })
    }

    /// Whether it may concern a drive, its link, a namespace, or a link to a compute: links are PCI functions that come
    /// and go, drives and namespaces belong to NVMe, and a cluster file system reports its withdrawal itself. udevd
    /// also makes the kernel announce writes to a disk, which change nothing here.
    #[must_use]
    pub fn concerns_storage(&self) -> bool {
        match &*self.subsystem {
            "pci" | "nvme" => true,
            "gfs2" => self.action == "offline",
            "block" => {
                self.path.contains("/nvme") && (self.action != "change" || self.writes_changed)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
