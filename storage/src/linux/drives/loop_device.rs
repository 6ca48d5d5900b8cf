//! Loop devices, found by what they are backed by, never by a remembered name (loop(4)).
#![expect(unsafe_code, reason = "the loop driver is driven by ioctl(2)")]

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use nix::errno::Errno;

use crate::{host::StepError, linux::exclusive, observed::DeviceNumber};

/// Other programs take free numbers too; this often the next one is tried.
const TRIES: usize = 64;

const LO_FLAGS_DIRECT_IO: u32 = 16;

nix::ioctl_none_bad!(loop_ctl_get_free, 0x4C82);
nix::ioctl_none_bad!(loop_clr_fd, 0x4C01);
nix::ioctl_write_ptr_bad!(loop_configure, 0x4C0A, LoopConfig);

/// `struct loop_info64`, include/uapi/linux/loop.h.
#[repr(C)]
pub(super) struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`, same file.
#[repr(C)]
pub(super) struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// A loop device and its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoopDevice {
    pub(super) path: PathBuf,
    pub(super) number: DeviceNumber,
}

/// Where devices were seen last. Every answer is checked against the kernel, so a name that moved costs a look at all
/// devices and nothing else; without it each of many looks would go through all of them.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<HashMap<PathBuf, LoopDevice>>);

impl Seen {
    /// The loop device over `file`.
    pub(super) fn find(&self, file: &Path) -> io::Result<Option<LoopDevice>> {
        let seen = self.lock().get(file).cloned();
        if let Some(device) = seen.filter(|device| backing(device.number).as_deref() == Some(file))
        {
            return Ok(Some(device));
        }
        let all = all()?;
        let found = all.get(file).cloned();
        *self.lock() = all;
        Ok(found)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, LoopDevice>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All loop devices that are set up, by what is beneath them.
pub(super) fn all() -> io::Result<HashMap<PathBuf, LoopDevice>> {
    Ok(set_up()?.filter_map(|(file, block)| Some((file, device(&block)?))).collect())
}

fn find(file: &Path) -> io::Result<Option<LoopDevice>> {
    Ok(set_up()?.find(|(backing, _)| backing == file).and_then(|(_, block)| device(&block)))
}

/// Files and their devices' directories, as sysfs tells (Documentation/ABI/testing/sysfs-block-loop).
fn set_up() -> io::Result<impl Iterator<Item = (PathBuf, PathBuf)>> {
    let blocks = fs::read_dir("/sys/block")?.flatten().map(|entry| entry.path());
    let loops = blocks
        .filter(|block| block.file_name().is_some_and(|name| name.as_bytes().starts_with(b"loop")));
    Ok(loops.filter_map(|block| Some((backing_file(&block.join("loop"))?, block))))
}

fn device(block: &Path) -> Option<LoopDevice> {
    Some(LoopDevice { path: Path::new("/dev").join(block.file_name()?), number: number(block)? })
}

/// The file beneath a device, when it is a loop device that is set up.
pub(super) fn backing(device: DeviceNumber) -> Option<PathBuf> {
    backing_file(&PathBuf::from(format!("/sys/dev/block/{device}/loop")))
}

fn backing_file(attributes: &Path) -> Option<PathBuf> {
    let text = fs::read(attributes.join("backing_file")).ok()?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(text.trim_ascii_end())))
}

fn number(block: &Path) -> Option<DeviceNumber> {
    let text = fs::read_to_string(block.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// Sets up a loop device over `file`, with direct I/O where the file's file system has it.
///
/// The caller holds the pool's lock: two loop devices over one file are not coherent.
pub(super) fn attach(file: &Path) -> io::Result<LoopDevice> {
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
        match configure(&device, &backing, file, LO_FLAGS_DIRECT_IO) {
            Err(Errno::EBUSY) => continue,
            Err(Errno::EINVAL) => match configure(&device, &backing, file, 0) {
                Err(Errno::EBUSY) => continue,
                other => other?,
            },
            other => other?,
        }
        let number = number(Path::new(&format!("/sys/block/loop{free}")));
        return number
            .map(|number| LoopDevice { path, number })
            .ok_or_else(|| io::Error::other(format!("loop{free} is not in /sys/block")));
    }
    Err(Errno::EBUSY.into())
}

fn configure(device: &File, backing: &File, name: &Path, flags: u32) -> nix::Result<()> {
    let mut file_name = [0; 64];
    let name = name.as_os_str().as_bytes();
    let shown = name.len().min(63);
    file_name[..shown].copy_from_slice(&name[..shown]);
    let info = LoopInfo {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        sizelimit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags,
        file_name,
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
    let config = LoopConfig {
        fd: backing.as_raw_fd().cast_unsigned(),
        block_size: 0,
        info,
        reserved: [0; 8],
    };
    // SAFETY: the layout is the kernel's, and `config` and `backing` outlive the call.
    unsafe { loop_configure(device.as_raw_fd(), &raw const config) }.map(drop)
}

/// Detaches the loop device over `file`; there being none is fine.
///
/// # Errors
/// `EBUSY` when it is mounted anywhere, in whichever mount namespace.
pub(super) fn detach(file: &Path, deadline: Duration) -> Result<(), StepError> {
    let failed =
        |source| StepError::System { call: "detach", target: file.display().to_string(), source };
    let Some(found) = find(file).map_err(failed)? else { return Ok(()) };
    let pin = File::open(&found.path).map_err(failed)?;
    // Between the look and the open the number may have passed to another file; now that it is open it cannot.
    if backing(found.number).as_deref() != Some(file) {
        return Ok(());
    }
    // A mount holds the device exclusively. Without having it exclusively LOOP_CLR_FD would succeed now and take the
    // device away at some later last close.
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
