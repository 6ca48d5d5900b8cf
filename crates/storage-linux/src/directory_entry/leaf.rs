//! The file, directory, device or root of a mount that an entry leads to, held open.

use std::{
    fs, io,
    os::fd::{AsRawFd, OwnedFd},
};

use nix::sys::stat::{Mode, SFlag};
use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
use storage::{desired::Owner, observed::DeviceNumber};

use block_devices::mount_table;

/// The file, directory, device or root of a mount at an entry.
#[derive(Debug)]
pub(in super::super) struct Leaf {
    /// Opened without access (`O_PATH`) and held open. If the leaf is the root of a mount, the open descriptor
    /// keeps the mount busy.
    pub(in super::super) fd: OwnedFd,
    pub(in super::super) owner: Owner,
    /// Device of the file system that the leaf is on.
    pub(in super::super) device: DeviceNumber,
    /// The number of the block device, if the leaf is a block device.
    pub(in super::super) bound: Option<DeviceNumber>,
    /// Id of the mount, if the leaf is the root of a mount.
    pub(in super::super) mount: Option<u64>,
    pub(super) kind: SFlag,
    pub(super) mode: Mode,
    pub(super) size: u64,
}

impl Leaf {
    /// Describes the root of a file system that was shut down. Every call on such a root fails with EIO, but the agent
    /// must still unmount it, and needs only the mount's id for that. Returns `error` unless `parent` is on another
    /// mount: only then is `fd` certainly the root of a mount.
    fn shut_down(fd: OwnedFd, parent: &OwnedFd, error: io::Error) -> io::Result<Self> {
        let mount = mount_of(&fd)?;
        let entry = mount_table::entry(mount)?
            .filter(|_| mount_of(parent).is_ok_and(|parent_mount| parent_mount != mount));
        let Some(entry) = entry else { return Err(error) };
        Ok(Self {
            fd,
            // No user has this owner, so every chown still counts as due.
            owner: Owner { uid: u32::MAX, gid: u32::MAX },
            device: entry.device,
            bound: None,
            mount: Some(mount),
            kind: SFlag::S_IFDIR,
            mode: Mode::empty(),
            size: 0,
        })
    }

    /// Reads the attributes of `fd` with `AT_STATX_DONT_SYNC`: cached attributes are enough, and with this flag the
    /// kernel asks no server of a network file system. GFS2 takes its lock despite the flag.
    pub(super) fn new(fd: OwnedFd, parent: &OwnedFd) -> io::Result<Self> {
        let mask = StatxFlags::TYPE
            | StatxFlags::MODE
            | StatxFlags::UID
            | StatxFlags::GID
            | StatxFlags::SIZE
            | StatxFlags::MNT_ID;
        let status = match statx(&fd, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, mask) {
            Err(rustix::io::Errno::IO) => {
                return Self::shut_down(fd, parent, rustix::io::Errno::IO.into());
            }
            other => other?,
        };
        if status.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
            return Err(io::Error::other(
                "statx(2) returns no mount id: Linux 5.8 or later is needed",
            ));
        }
        let kind = SFlag::from_bits_truncate(status.stx_mode.into()) & SFlag::S_IFMT;
        let (device, is) = mount_table::numbers(&status);
        Ok(Self {
            fd,
            owner: Owner { uid: status.stx_uid, gid: status.stx_gid },
            device,
            bound: (kind == SFlag::S_IFBLK).then_some(is),
            mount: status
                .stx_attributes
                .contains(StatxAttributes::MOUNT_ROOT)
                .then_some(status.stx_mnt_id),
            kind,
            mode: Mode::from_bits_truncate(status.stx_mode.into()),
            size: status.stx_size,
        })
    }
}

/// Returns the id of the mount that an open file is on (proc_pid_fdinfo(5)).
fn mount_of(fd: &OwnedFd) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()))?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    id.ok_or_else(|| io::Error::other("/proc/self/fdinfo has no mnt_id"))
}
