//! What the kernel announces of devices, from a netlink socket (netlink(7), NETLINK_KOBJECT_UEVENT).
//!
//! Group 1 is the kernel's own and needs no udevd. The `udev` crate would need libudev to build and to run, and its monitor
//! cannot be handed to another thread; what is used here of an event is four of its words.

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

/// The kernel's events, before udevd has seen them.
const KERNEL: u32 = 1;
/// Room for some thousand events: a chassis that powers up has eighteen drives with as many functions each.
const ROOM: usize = 8 << 20;
/// An event is shorter (UEVENT_BUFFER_SIZE, include/linux/kobject.h, and its header).
const LONGEST: usize = 8192;

/// A socket that receives the kernel's device events.
#[derive(Debug)]
pub struct Uevents(OwnedFd);

/// What came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// An event.
    Event(Uevent),
    /// More came than there was room for: whatever was known of devices is to be looked at anew.
    Overrun,
}

/// An event. That a thing of the kernel's changed is all it proves; how it is now, it must be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uevent {
    /// `add`, `remove`, `change`, `bind`, `unbind`, …
    pub action: String,
    /// Its place in sysfs.
    pub path: String,
    /// `pci`, `nvme`, `block`, …
    pub subsystem: String,
    /// Of a disk: it began or ceased to take writes (`DISK_RO`, block/genhd.c).
    pub writes_changed: bool,
}

impl Uevents {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the kernel gives no such socket.
    pub fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let protocol = SockProtocol::NetlinkKObjectUEvent;
        let fd = socket(AddressFamily::Netlink, SockType::Datagram, flags, protocol)?;
        // Without the right to it the default is what there is, and what does not fit is told as lost.
        let _ = setsockopt(&fd, sockopt::RcvBufForce, &ROOM);
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, KERNEL))?;
        Ok(Self(fd))
    }

    /// Waits until something came in, or `patience` is over; without one for ever. Whether something did.
    ///
    /// # Errors
    /// When the socket cannot be waited for.
    pub fn wait(&self, patience: Option<Duration>) -> io::Result<bool> {
        let timeout = patience.map(PollTimeout::try_from).transpose();
        let timeout = timeout.unwrap_or(Some(PollTimeout::MAX)).unwrap_or(PollTimeout::NONE);
        match poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Takes what came in next, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` when nothing did; others when the socket is of no more use.
    pub fn next(&self) -> io::Result<Received> {
        let mut buffer = [0; LONGEST];
        loop {
            match recvfrom::<NetlinkAddr>(self.0.as_raw_fd(), &mut buffer) {
                Ok((length, Some(from))) if from.pid() == 0 => {
                    if let Some(event) = Uevent::parse(&buffer[..length]) {
                        return Ok(Received::Event(event));
                    }
                }
                // Somebody else's word for it.
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::ENOBUFS) => return Ok(Received::Overrun),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Uevent {
    /// Reads `action@path`, then words that end with a zero byte each (lib/kobject_uevent.c, `kobject_uevent_env`).
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

    /// Whether it may be about a drive, its link, a namespace, or a link to a compute: links are PCI functions that come and
    /// go, drives and namespaces are NVMe's, and a cluster file system that gives up says so itself. That a disk was written to,
    /// which udevd has the kernel announce, moves nothing.
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
