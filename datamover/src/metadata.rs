//! Modes, times, extended attributes and ACLs.

use std::{ffi::CStr, fs::File};

use rustix::{
    fs::{
        Mode, Stat, Timespec, Timestamps, XattrFlags, fchmod, fgetxattr, flistxattr, fsetxattr,
        futimens,
    },
    io::{Errno, Result},
};

use crate::mover::Mover;

/// Sets the metadata of a copy to that of its source.
pub(crate) fn finish(mover: &Mover, source: &File, copy: &File, stat: &Stat) -> Result<()> {
    if mover.order.copies_xattrs {
        copy_xattrs(source, copy)?;
    }
    fchmod(copy, mode(stat))?;
    futimens(copy, &times(stat))
}

pub(crate) fn mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o7777)
}

pub(crate) fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: timespec(stat.st_atime, stat.st_atime_nsec.cast_signed()),
        last_modification: timespec(stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
    }
}

fn timespec(tv_sec: i64, tv_nsec: i64) -> Timespec {
    Timespec { tv_sec, tv_nsec }
}

/// Maximum bytes of a list of names, and of a value (xattr(7)).
const MAX_BYTES: usize = 64 << 10;

/// Copies the extended attributes that a user may set: `user.*` and POSIX ACLs.
fn copy_xattrs(source: &File, copy: &File) -> Result<()> {
    let mut names = vec![0; MAX_BYTES];
    let length = match flistxattr(source, &mut names[..]) {
        Err(Errno::OPNOTSUPP) => return Ok(()),
        length => length?,
    };
    let mut value = vec![0; MAX_BYTES];
    for name in names[..length].split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
        if is_settable_by_user(name) {
            let length = fgetxattr(source, name, &mut value[..])?;
            fsetxattr(copy, name, &value[..length], XattrFlags::empty())?;
        }
    }
    Ok(())
}

fn is_settable_by_user(name: &CStr) -> bool {
    name.to_bytes().starts_with(b"user.") || name.to_bytes().starts_with(b"system.posix_acl_")
}
