//! Loop devices, found by their backing file and never by a remembered name (loop(4)).
#![expect(unsafe_code, reason = "the loop driver is driven by ioctl(2)")]

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    time::Duration,
};

use linux_raw_sys::loop_device::{
    LO_FLAGS_DIRECT_IO, LOOP_CLR_FD, LOOP_CONFIGURE, LOOP_CTL_GET_FREE, loop_config, loop_info64,
};
use nix::errno::Errno;
use parking_lot::Mutex;
use storage::{host::StepError, observed::DeviceNumber};

use crate::{exclusive, sysfs::number};

/// Maximum number of attempts to take a free loop device: other programs also take free loop devices.
const TRIES: usize = 64;

const DIRECT_IO: u32 = LO_FLAGS_DIRECT_IO as u32;

nix::ioctl_none_bad!(loop_ctl_get_free, LOOP_CTL_GET_FREE);
nix::ioctl_none_bad!(loop_clr_fd, LOOP_CLR_FD);
nix::ioctl_write_ptr_bad!(loop_configure, LOOP_CONFIGURE, loop_config);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopDevice {
    pub path: PathBuf,
    pub number: DeviceNumber,
}

/// Caches the last known devices. Each result from the cache is checked against the kernel, so a wrong entry costs only
/// a scan of all devices. Without the cache, every call would scan all devices.
#[derive(Debug, Default)]
pub struct DeviceCache(Mutex<HashMap<PathBuf, LoopDevice>>);

impl DeviceCache {
    pub fn find(&self, file: &Path) -> io::Result<Option<LoopDevice>> {
        let cached = self.0.lock().get(file).cloned();
        if let Some(device) =
            cached.filter(|device| backing(device.number).as_deref() == Some(file))
        {
            return Ok(Some(device));
        }
        let all = all()?;
        let found = all.get(file).cloned();
        *self.0.lock() = all;
        Ok(found)
    }
}

/// Returns all loop devices in use, by their backing file.
pub fn all() -> io::Result<HashMap<PathBuf, LoopDevice>> {
    set_up()?.into_iter().map(|(file, block)| Ok((file, device(&block)?))).collect()
}

fn find(file: &Path) -> io::Result<Option<LoopDevice>> {
    let found = set_up()?.into_iter().find(|(backing, _)| backing == file);
    found.map(|(_, block)| device(&block)).transpose()
}

/// Returns the backing file of each loop device in use, with the device's directory in sysfs
/// (Documentation/ABI/testing/sysfs-block-loop).
///
/// Fails if any device cannot be read: with an incomplete list, a file whose device is missing from the list would get
/// a second loop device.
fn set_up() -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let mut found = Vec::new();
    for block in fs::read_dir("/sys/block")? {
        let block = block?;
        if block.file_name().as_bytes().starts_with(b"loop")
            && let Some(file) = backing_file(&block.path().join("loop"))?
        {
            found.push((file, block.path()));
        }
    }
    Ok(found)
}

fn device(block: &Path) -> io::Result<LoopDevice> {
    let name = block.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(LoopDevice { path: Path::new("/dev").join(name), number: number(block)? })
}

/// Returns the backing file of a loop device in use; `None` for any other device.
pub fn backing(device: DeviceNumber) -> Option<PathBuf> {
    backing_file(&PathBuf::from(format!("/sys/dev/block/{device}/loop"))).ok().flatten()
}

/// Reads the attribute `backing_file`. It exists only while the loop device has a file, and may vanish during the read.
fn backing_file(attributes: &Path) -> io::Result<Option<PathBuf>> {
    match fs::read(attributes.join("backing_file")) {
        Ok(text) => Ok(Some(PathBuf::from(std::ffi::OsStr::from_bytes(text.trim_ascii_end())))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets up a loop device over `file`, with direct I/O if the file system of `file` supports it.
///
/// The caller must hold the lock of the [`FilePool`](super::FilePool), so that no other agent sets up a second loop
/// device over `file`: two loop devices over one file do not see each other's writes.
pub fn attach(file: &Path) -> io::Result<LoopDevice> {
    if let Some(device) = find(file)? {
        return Ok(device);
    }
    let backing = OpenOptions::new().read(true).write(true).open(file)?;
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    for _ in 0..TRIES {
        // SAFETY: takes no argument.
        let free = unsafe { loop_ctl_get_free(control.as_raw_fd()) }?;
        let path = PathBuf::from(format!("/dev/loop{free}"));
        let device = OpenOptions::new().read(true).write(true).open(&path)?;
        match configure(&device, &backing, file, DIRECT_IO) {
            Err(Errno::EBUSY) => continue,
            Err(Errno::EINVAL) => match configure(&device, &backing, file, 0) {
                Err(Errno::EBUSY) => continue,
                other => other?,
            },
            other => other?,
        }
        let number = number(Path::new(&format!("/sys/block/loop{free}")))?;
        return Ok(LoopDevice { path, number });
    }
    Err(Errno::EBUSY.into())
}

fn configure(device: &File, backing: &File, name: &Path, flags: u32) -> nix::Result<()> {
    let mut file_name = [0; 64];
    let name = name.as_os_str().as_bytes();
    let length = name.len().min(63);
    file_name[..length].copy_from_slice(&name[..length]);
    let info = loop_info64 {
        lo_device: 0,
        lo_inode: 0,
        lo_rdevice: 0,
        lo_offset: 0,
        lo_sizelimit: 0,
        lo_number: 0,
        lo_encrypt_type: 0,
        lo_encrypt_key_size: 0,
        lo_flags: flags,
        lo_file_name: file_name,
        lo_crypt_name: [0; 64],
        lo_encrypt_key: [0; 32],
        lo_init: [0; 2],
    };
    let fd = backing.as_raw_fd().cast_unsigned();
    let config = loop_config { fd, block_size: 0, info, __reserved: [0; 8] };
    // SAFETY: the layout is the kernel's, and `config` and `backing` outlive the call.
    unsafe { loop_configure(device.as_raw_fd(), &raw const config) }.map(drop)
}

/// Detaches the loop device over `file`; succeeds when there is none.
///
/// # Errors
/// `EBUSY` when the device is mounted, in any mount namespace.
pub fn detach(file: &Path, deadline: Duration) -> Result<(), StepError> {
    let failed =
        |source| StepError::System { call: "detach", target: file.display().to_string(), source };
    let Some(found) = find(file).map_err(failed)? else { return Ok(()) };
    let pin = File::open(&found.path).map_err(failed)?;
    // The device may have been given another file before it was opened; while it is open, it keeps its file.
    if backing(found.number).as_deref() != Some(file) {
        return Ok(());
    }
    // A mount holds the device exclusively. Without exclusive access, LOOP_CLR_FD would succeed even for a device in
    // use, and the kernel would detach the device only when its last user closes it.
    let result = exclusive::with("detach", &found.path, deadline, |device| clear(&device));
    drop(pin);
    result
}

fn clear(device: &File) -> io::Result<()> {
    // SAFETY: takes no argument.
    match unsafe { loop_clr_fd(device.as_raw_fd()) } {
        Ok(_) | Err(Errno::ENXIO) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backing_file_fails_when_the_attribute_is_unreadable() {
        let sysfs = tempfile::tempdir().unwrap();
        assert_eq!(backing_file(sysfs.path()).unwrap(), None);
        fs::create_dir(sysfs.path().join("backing_file")).unwrap();
        assert!(backing_file(sysfs.path()).is_err(), "EISDIR stands for EMFILE and EIO");
    }
}
