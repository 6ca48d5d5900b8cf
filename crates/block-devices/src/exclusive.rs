//! Runs work that needs exclusive access to a block device.
//!
//! The work runs in a child process. Otherwise a program that another thread starts at that moment would inherit the
//! exclusively opened descriptor, and the next mkfs or mount would find the device busy.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::Duration,
};

use nix::sys::stat::stat;
use storage::host::StepError;

use super::{
    busy::{is_busy, retry_while_busy},
    call, holders, mount_table,
};

/// Runs `work` on `device`, and meanwhile keeps other programs from mounting the device or opening it exclusively.
///
/// # Errors
/// `EBUSY` with the holders when the device stays busy; else `work`'s errno.
pub fn with(
    call: &'static str,
    device: &Path,
    deadline: Duration,
    work: impl Fn(File) -> io::Result<()>,
) -> Result<(), StepError> {
    let name = device.display().to_string();
    let result = retry_while_busy(|| call::run(call, &name, deadline, &[], || work(open(device)?)));
    match result {
        Err(StepError::System { call, target, source }) if is_busy(&source) => {
            let number = stat(device).map(|stat| mount_table::number(stat.st_rdev));
            let holders = number.map(holders::of_device).unwrap_or_default();
            Err(StepError::Held { call, target, holders, source })
        }
        other => other,
    }
}

/// Returns whether `device` is free in all mount namespaces: neither mounted nor opened exclusively. A device that no
/// longer exists is free.
pub fn is_free(device: &Path, deadline: Duration) -> Result<bool, StepError> {
    let name = device.display().to_string();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_EXCL);
    let look = || options.open(device).map(drop);
    match retry_while_busy(|| call::run("open(2)", &name, deadline, &[], look)) {
        Ok(()) => Ok(true),
        Err(StepError::System { source, .. }) if is_busy(&source) => Ok(false),
        Err(StepError::System { source, .. }) if is_gone(&source) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Returns whether opening failed because the device was just removed, so that no program can be using it.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENXIO | libc::ENODEV))
}

/// Opens a block device with O_EXCL: EBUSY while it is mounted or another program has it open exclusively (open(2)).
fn open(device: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(device)
}
