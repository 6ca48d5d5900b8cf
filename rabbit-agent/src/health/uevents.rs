//! Receives device events of the kernel. Each event requests a health check; its content is not trusted.
//!
//! Events come from the kernel's own multicast group (netlink(7), NETLINK_KOBJECT_UEVENT), which needs no udevd.
//! libudev's monitor cannot move to another thread, so the thread that waits for events also opens the monitor. The
//! thread sleeps in the kernel until an event comes.

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

/// Events within this time after the first one request a single check: a drive that is pulled causes some ten events
/// within milliseconds, and a chassis that powers up causes thousands.
const GATHER: Duration = Duration::from_millis(100);
/// Size of the receive buffer in bytes, for some thousand events: a chassis that powers up has eighteen drives, and
/// each drive has eighteen functions.
const BUFFER: usize = 8 << 20;

/// Requests a check whenever a device event comes. Runs until the process ends.
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
        // Waits until the thread has opened its monitor or failed to open it.
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
    // If the agent lacks the privilege to enlarge the buffer, the buffer keeps its default size, and the kernel reports
    // an overrun.
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

/// Waits until an event arrives or the time `patience` has passed; without `patience`, waits for ever.
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
                // The kernel dropped events because the buffer was full, and one of the dropped events may have
                // concerned storage.
                libc::ENOBUFS => concerned = true,
                0 => {}
                errno => return Err(io::Error::from_raw_os_error(errno)),
            }
        } else {
            // If libudev returns no event here, this counts as an event that concerns storage: libudev returns none
            // right after the kernel dropped events, and also if another process than the kernel sent the event.
            let event = monitor.iter().next();
            concerned |= event.is_none_or(|event| Uevent::parse(&event).concerns_storage());
        }
    }
    Ok(concerned)
}

/// An event of the kernel. The event proves only that something changed; the agent reads the device's
/// state from the device.
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

    /// Returns whether the event may concern a drive, its link, a namespace, or a link to a compute. The kernel
    /// announces a link that comes or goes as a PCI function, a drive or namespace as a device of NVMe, and a GFS2 that
    /// withdraws as `offline`. At udevd's request it also announces every write to a disk: such an event is ignored.
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
