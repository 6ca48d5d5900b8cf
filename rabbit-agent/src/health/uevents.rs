//! Receives device events of the kernel. Each requests a health check; their contents are not trusted.
//!
//! Events come from the kernel's own multicast group (netlink(7), NETLINK_KOBJECT_UEVENT), which needs no udevd.
//! libudev's monitor cannot move to another thread, so the thread that waits opens it; it sleeps in the kernel while
//! nothing moves.

use std::{
    io,
    os::fd::AsFd,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use daemon::{chain, vital_now};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{getsockopt, setsockopt, sockopt},
};
use udev::{Event, MonitorBuilder, MonitorSocket};

use super::HealthState;

/// Events within this time of the first request one check: a drive that is pulled causes some ten events within
/// milliseconds, a chassis that powers up thousands.
const GATHER: Duration = Duration::from_millis(100);
/// Receive buffer in bytes, for some thousand events: a chassis that powers up has eighteen drives with
/// as many functions each.
const BUFFER: usize = 8 << 20;

/// Requests a check whenever a device event comes, until the process ends.
pub fn listen(health: HealthState) {
    let (opened, is_open) = mpsc::channel::<()>();
    let begun = thread::Builder::new().name("uevents".to_owned()).spawn(move || {
        let received = vital_now("the task that receives device events", || {
            let monitor = open();
            drop(opened);
            receive(&monitor?, &health)
        });
        if let Err(error) = received {
            log_unavailable(&error);
        }
    });
    match begun {
        // Returns once the thread has opened its monitor or failed to.
        Ok(_) => drop(is_open.recv()),
        Err(error) => log_unavailable(&error),
    }
}

fn log_unavailable(error: &io::Error) {
    log::warn!(
        "device events cannot be received ({}): drives and links are checked only every --drive-check",
        chain(error)
    );
}

fn open() -> io::Result<MonitorSocket> {
    let monitor = MonitorBuilder::new_kernel()?;
    // Without the privilege the default buffer remains, and an overrun is reported.
    let _ = setsockopt(&monitor, sockopt::RcvBufForce, &BUFFER);
    monitor.listen()
}

fn receive(monitor: &MonitorSocket, health: &HealthState) -> io::Result<()> {
    loop {
        wait(monitor, None)?;
        if drain(monitor)? {
            let end = Instant::now() + GATHER;
            while wait(monitor, Some(end.saturating_duration_since(Instant::now())))?.is_some() {
                drain(monitor)?;
            }
            health.request_check();
        }
    }
}

/// Waits until an event arrives or `patience` is over; without `patience`, for ever.
fn wait(monitor: &MonitorSocket, patience: Option<Duration>) -> io::Result<Option<PollFlags>> {
    let timeout = patience.map(PollTimeout::try_from).transpose();
    let timeout = timeout.unwrap_or(Some(PollTimeout::MAX)).unwrap_or(PollTimeout::NONE);
    let mut polled = [PollFd::new(monitor.as_fd(), PollFlags::POLLIN)];
    match poll(&mut polled, timeout) {
        Ok(0) | Err(Errno::EINTR) => Ok(None),
        Ok(_) => Ok(polled[0].revents()),
        Err(errno) => Err(errno.into()),
    }
}

/// Reads all events that have arrived, and returns whether any of them concerns storage.
fn drain(monitor: &MonitorSocket) -> io::Result<bool> {
    let mut concerned = false;
    while let Some(ready) = wait(monitor, Some(Duration::ZERO))? {
        if ready.contains(PollFlags::POLLERR) {
            match getsockopt(monitor, sockopt::SocketError)? {
                // The kernel dropped events because the buffer was full, and one of them may have mattered.
                libc::ENOBUFS => concerned = true,
                0 => {}
                errno => return Err(io::Error::from_raw_os_error(errno)),
            }
        } else {
            // libudev returns no event that another process than the kernel sent, and none right after the kernel
            // dropped events.
            let event = monitor.iter().next();
            concerned |= event.is_none_or(|event| Uevent::parse(&event).concerns_storage());
        }
    }
    Ok(concerned)
}

/// An event. It proves only that something changed; the device itself shows its state.
#[derive(Debug)]
struct Uevent {
    /// `add`, `remove`, `change`, `bind`, `unbind`, …
    action: String,
    path: String,
    /// `pci`, `nvme`, `block`, …
    subsystem: String,
    /// Whether a disk became read-only or writable (`DISK_RO`, block/genhd.c).
    writes_changed: bool,
}

impl Uevent {
    fn parse(event: &Event) -> Self {
        let property = |name| {
            let value = event.property_value(name);
            value.map(|value| value.to_string_lossy().into_owned())
        };
        Self {
            action: property("ACTION").unwrap_or_default(),
            path: property("DEVPATH").unwrap_or_default(),
            subsystem: property("SUBSYSTEM").unwrap_or_default(),
            writes_changed: property("DISK_RO").is_some(),
        }
    }

    /// Returns whether the event may concern a drive, its link, a namespace, or a link to a compute: links are PCI
    /// functions that come and go, drives and namespaces belong to NVMe, and a cluster file system reports its
    /// withdrawal itself. udevd also makes the kernel announce writes to a disk, which change nothing here.
    fn concerns_storage(&self) -> bool {
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
