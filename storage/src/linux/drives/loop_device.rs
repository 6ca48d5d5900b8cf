//! Loop devices, found by what they are backed by, never by a remembered name (loop(4)).
#![expect(unsafe_code, reason = "the loop driver is driven by ioctl(2)")]

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use nix::errno::Errno;

use crate::observed::DeviceNumber;

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

/// All loop devices that are set up, by what is beneath them.
pub(super) fn all() -> io::Result<HashMap<PathBuf, LoopDevice>> {
    let mut found = HashMap::new();
    for entry in fs::read_dir("/sys/block")? {
        let entry = entry?;
        if entry.file_name().as_bytes().starts_with(b"loop")
            && let Some(file) = backing_file(&entry.path().join("loop"))
            && let Some(number) = number(&entry.path())
        {
            found.insert(
                file,
                LoopDevice { path: Path::new("/dev").join(entry.file_name()), number },
            );
        }
    }
    Ok(found)
}

/// The loop device over `file`, as sysfs tells (Documentation/ABI/testing/sysfs-block-loop).
pub(super) fn find(file: &Path) -> io::Result<Option<LoopDevice>> {
    Ok(all()?.remove(file))
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
pub(super) fn detach(file: &Path) -> io::Result<()> {
    let Some(found) = find(file)? else { return Ok(()) };
    let mut open = OpenOptions::new();
    let device = open.read(true).write(true).open(&found.path)?;
    // Between the look and the open the number may have passed to another file; now that it is open it cannot.
    if backing(found.number).as_deref() != Some(file) {
        return Ok(());
    }
    // A mount holds the device exclusively, so this open fails with EBUSY when there is one (open(2), O_EXCL); without
    // it LOOP_CLR_FD would succeed now and take the device away at some later last close.
    let alone = open.custom_flags(libc::O_EXCL).open(&found.path)?;
    // SAFETY: takes no argument.
    let cleared = unsafe { loop_clr_fd(device.as_raw_fd()) };
    drop(alone);
    match cleared {
        Ok(_) | Err(Errno::ENXIO) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
