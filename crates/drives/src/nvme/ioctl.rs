//! Sends admin commands to a controller through `/dev/nvmeN`, and zeroes a namespace's blocks, by ioctl(2).
#![expect(unsafe_code, reason = "the NVMe driver and block devices are driven by ioctl(2)")]

use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    admin::{AdminError, AdminQueue, Answered, Command},
    status::Status,
    wire::PassthroughCommand,
};

// include/uapi/linux/nvme_ioctl.h, include/uapi/linux/fs.h.
nix::ioctl_readwrite!(nvme_admin_command, b'N', 0x41, PassthroughCommand);
nix::ioctl_none!(nvme_reset, b'N', 0x44);
nix::ioctl_none!(nvme_rescan, b'N', 0x46);
nix::ioctl_write_ptr_bad!(block_zero_out, 0x127f, [u64; 2]);

/// Shortest timeout that is passed to the kernel. When a command takes longer, the kernel resets the controller
/// (drivers/nvme/host/pci.c, `nvme_timeout`); the reset aborts all other commands on that controller, also erasures,
/// and removes the controller's virtual functions. Callers have shorter deadlines of their own; when such a deadline
/// passes, the caller stops waiting, but nothing is reset.
const PATIENCE: Duration = Duration::from_secs(600);

/// The admin queue of a controller on this node.
#[derive(Debug)]
pub(super) struct Controller(PathBuf);

impl Controller {
    /// Refers to the controller that sysfs now calls `name`. Each command opens the device again by this name. The name
    /// may belong to another drive by then, so the callers check the drive's NQN.
    pub(super) fn new(name: &str) -> Self {
        Self(Path::new("/dev").join(name))
    }

    fn open(&self) -> Answered<File> {
        OpenOptions::new().read(true).write(true).open(&self.0).map_err(AdminError::System)
    }

    /// Makes the kernel rescan the controller's namespaces; returns before the scan ends.
    pub(super) fn rescan(&self) -> io::Result<()> {
        let file = OpenOptions::new().read(true).open(&self.0)?;
        // SAFETY: takes no argument.
        unsafe { nvme_rescan(file.as_raw_fd()) }?;
        Ok(())
    }
}

impl AdminQueue for Controller {
    fn submit(&self, command: Command, data: &mut [u8]) -> Answered<u32> {
        let file = self.open()?;
        let mut passed = PassthroughCommand {
            opcode: command.opcode,
            nsid: command.nsid,
            cdw10: command.cdw10,
            cdw11: command.cdw11,
            timeout_ms: patience(command.timeout),
            ..PassthroughCommand::default()
        };
        if !data.is_empty() {
            passed.address = data.as_mut_ptr().expose_provenance() as u64;
            passed.data_length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        }
        // SAFETY: the layout is the kernel's; `data` is borrowed until the call returns, and the kernel reads or writes
        // at most `data_length` bytes of `data`.
        let answer = unsafe { nvme_admin_command(file.as_raw_fd(), &raw mut passed) };
        match answer.map_err(|errno| AdminError::System(errno.into()))? {
            0 => Ok(passed.result),
            // A positive result is a status word of 15 bits.
            status => {
                Err(AdminError::Status(Status::new(u16::try_from(status).unwrap_or(u16::MAX))))
            }
        }
    }

    fn reset(&self) -> Answered<()> {
        let file = self.open()?;
        // SAFETY: takes no argument.
        unsafe { nvme_reset(file.as_raw_fd()) }
            .map_err(|errno| AdminError::System(errno.into()))?;
        Ok(())
    }
}

/// Returns the time, in milliseconds, after which the kernel may reset the controller.
fn patience(within: Duration) -> u32 {
    u32::try_from(within.max(PATIENCE).as_millis()).unwrap_or(u32::MAX)
}

/// Makes the first `bytes` of a block device read as zero.
pub(super) fn zero(device: &File, bytes: u64) -> io::Result<()> {
    // SAFETY: the kernel reads two numbers, which outlive the call.
    unsafe { block_zero_out(device.as_raw_fd(), &raw const *&[0, bytes]) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_timeout_is_at_least_the_commands_deadline() {
        for (within, milliseconds) in [(5, 600_000), (120, 600_000), (3600, 3_600_000)] {
            assert_eq!(patience(Duration::from_secs(within)), milliseconds);
        }
    }
}
