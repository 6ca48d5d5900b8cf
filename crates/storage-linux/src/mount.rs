//! Mounts and unmounts file systems. No other module does so.

use std::{
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    time::Duration,
};

use block_devices::{
    busy::{is_busy, retry_while_busy},
    call, holders,
    mount_table::{self, Entry},
};
use nix::{
    errno::Errno,
    fcntl::AtFlags,
    sys::stat::stat,
    unistd::{Gid, Uid, fchownat},
};
use process::Cmd;
use storage::{
    desired::{AllowedRoots, FileSystemKind, MountPoint, Owner},
    host::StepError,
    observed::DeviceNumber,
};
use sys_mount::{Mount, UnmountFlags};

use super::{
    config::LustreUnmount,
    directory_entry::{DirectoryEntry, Leaf, Walk, fd_path, walk},
    kernel_log::KernelLog,
    mount_line::{Way, is_plain_unmount, way},
    mount_point::entry_of,
    mount_refusal::explain,
};

/// The deadline of each kind of call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadlines {
    pub(super) command: Duration,
    pub(super) call: Duration,
    pub(super) lustre: LustreUnmount,
}

impl Deadlines {
    /// Returns the deadlines for the unmount of a file system of this type.
    fn of_unmount(self, kind: &str) -> Self {
        if !is_lustre(kind) {
            return self;
        }
        let lustre = self.lustre.deadline;
        Self { command: self.command.max(lustre), call: self.call.max(lustre), ..self }
    }
}

/// Recognises the mount type of a Lustre client or target.
fn is_lustre(kind: &str) -> bool {
    matches!(kind, "lustre" | "lustre_tgt")
}

/// Mounts `source` on `target` by the site's `line`, and checks the result.
pub(super) fn mount(
    source: &str,
    target: &MountPoint,
    kind: FileSystemKind,
    line: &str,
    roots: &AllowedRoots,
    deadlines: Deadlines,
) -> Result<(), StepError> {
    let failed = StepError::system("mount(2)", target);
    let entry = entry_of(walk(target).map_err(failed)?, target)?;
    let leaf = entry.leaf_within(target, deadlines.call).map_err(failed)?;
    let leaf = leaf.ok_or_else(|| failed(Errno::ENOENT.into()))?;
    if leaf.mount.is_some() {
        return Err(StepError::Changed(format!(
            "another program mounted a file system at {target} meanwhile"
        )));
    }
    let log = KernelLog::from_now();
    let mounted = match way(kind.as_str(), line, source, &target.to_string()) {
        Way::Helper => Cmd::shell(&format!("mount -t {} {line}", kind.as_str()))
            .run(deadlines.command)
            .map_err(StepError::from),
        Way::Call { flags, data } => {
            let open_source = hold(source, roots).map_err(failed)?;
            let from = open_source
                .as_ref()
                .map_or_else(|| PathBuf::from(source), |leaf| fd_path(&leaf.fd));
            let target_path = fd_path(&leaf.fd);
            let mut keep = vec![leaf.fd.as_raw_fd()];
            keep.extend(open_source.as_ref().map(|leaf| leaf.fd.as_raw_fd()));
            let what = format!("{kind} {source} on {target}");
            retry_while_busy(|| {
                call::run("mount(2)", &what, deadlines.call, &keep, || {
                    let builder = Mount::builder().fstype(kind.as_str()).flags(flags);
                    let builder = if data.is_empty() { builder } else { builder.data(&data) };
                    builder.mount(&from, &target_path).map(drop)
                })
            })
        }
    };
    mounted.map_err(|error| explain(error, log, source))?;
    drop(leaf);
    verify(source, target, kind, &entry, deadlines.call)
}

/// Opens a source beneath an allowed root and holds it open, so that no user can replace it.
fn hold(source: &str, roots: &AllowedRoots) -> io::Result<Option<Leaf>> {
    let Ok(point) = MountPoint::parse(source, roots) else { return Ok(None) };
    match walk(&point)? {
        Walk::Entry(entry) => entry.leaf()?.map(Some).ok_or_else(|| Errno::ENOENT.into()),
        Walk::Stopped(_) => Err(Errno::ENOENT.into()),
    }
}

/// Checks which file system is now mounted at the target: a site's line can mount anything anywhere.
fn verify(
    source: &str,
    target: &MountPoint,
    kind: FileSystemKind,
    at: &DirectoryEntry,
    deadline: Duration,
) -> Result<(), StepError> {
    let failed = StepError::system("mount(2)", target);
    let leaf = at.leaf_within(target, deadline).map_err(failed)?;
    let mount = leaf.as_ref().and_then(|leaf| leaf.mount);
    let entry = mount.map(mount_table::entry).transpose().map_err(failed)?.flatten();
    let (Some(leaf), Some(entry)) = (leaf, entry) else {
        return Err(failed(io::Error::other(
            "the command succeeded, but nothing is mounted there",
        )));
    };
    if kind == FileSystemKind::Xfs
        && Path::new(source).starts_with("/dev")
        && !is_on(&entry, source, &leaf)
    {
        let found = entry.source;
        return Err(failed(io::Error::other(format!(
            "the command succeeded, but {found} is mounted there"
        ))));
    }
    Ok(())
}

fn is_on(entry: &Entry, device: &str, leaf: &Leaf) -> bool {
    let wanted = stat(device).map(|stat| mount_table::number(stat.st_rdev));
    wanted.is_ok_and(|wanted| wanted == leaf.device || wanted == entry.device)
}

/// Unmounts `device` from `target`, never lazily. Unmounts by force only a Lustre file system whose servers do not
/// answer, and only if the site configured that.
pub(super) fn unmount(
    target: &MountPoint,
    device: DeviceNumber,
    line: &str,
    deadlines: Deadlines,
) -> Result<(), StepError> {
    let failed = StepError::system("umount(2)", target);
    let Walk::Entry(entry) = walk(target).map_err(failed)? else { return Ok(()) };
    // Hooks have run since the observation, and another program may have mounted something on top.
    let Some((there, kind)) = top_mount(&entry, target, deadlines.call).map_err(failed)? else {
        return Ok(());
    };
    if there != device {
        return Err(StepError::Changed(format!("another mount covers the mount at {target} now")));
    }
    let patience = deadlines.of_unmount(&kind);
    let result = if is_plain_unmount(line, &target.to_string()) {
        unmount_call("umount(2)", UnmountFlags::empty(), target, &entry, patience.call)
    } else {
        Cmd::shell(&format!("umount {line}"))
            .run(patience.command)
            .map(drop)
            .map_err(StepError::from)
    };
    match result {
        Err(StepError::System { call, target: what, source }) if is_busy(&source) => {
            let holders = holders::of_mount(&target.path(), device);
            Err(StepError::Held { call, target: what, holders, source })
        }
        Err(error) if is_lustre(&kind) && deadlines.lustre.force && error.is_hung() => {
            unmount_by_force(target, &entry, device, deadlines.call, error)
        }
        other => other,
    }
}

/// Unmounts by force a mount whose unmount hangs. If the mount table no longer lists the mount on top of `target`,
/// returns the error `hung`: the kernel has then detached the mount already, and an unmount by force has no effect.
fn unmount_by_force(
    target: &MountPoint,
    entry: &DirectoryEntry,
    device: DeviceNumber,
    deadline: Duration,
    hung: StepError,
) -> Result<(), StepError> {
    let call = "umount(2) by force";
    let failed = StepError::system(call, target);
    let root = mount_table::real(target.root()).map_err(failed)?.unwrap_or_default();
    let top = mount_table::at(&root.join(target.below())).map_err(failed)?.into_iter().next();
    if top.is_none_or(|top| top.device != device) {
        return Err(hung);
    }
    log::warn!(
        "{hung}: {target} is unmounted by force; data that was not written to a server is lost"
    );
    unmount_call(call, UnmountFlags::FORCE, target, entry, deadline)
}

/// Returns the device and the type of the topmost mount at an entry.
fn top_mount(
    entry: &DirectoryEntry,
    target: &MountPoint,
    deadline: Duration,
) -> io::Result<Option<(DeviceNumber, String)>> {
    let Some(leaf) = entry.leaf_within(target, deadline)? else { return Ok(None) };
    let entry = leaf.mount.map(mount_table::entry).transpose()?.flatten();
    Ok(entry.map(|entry| (leaf.bound.unwrap_or(entry.device), entry.kind)))
}

fn unmount_call(
    call: &'static str,
    flags: UnmountFlags,
    target: &MountPoint,
    entry: &DirectoryEntry,
    deadline: Duration,
) -> Result<(), StepError> {
    // Use a path that starts at the open parent: a descriptor on the mount itself would keep the mount busy.
    let path = entry.path();
    let keep = [entry.parent.as_raw_fd()];
    // In sys-mount 3.1 the flag NOFOLLOW has the value of O_NOFOLLOW, which umount(2) refuses.
    let flags = flags | UnmountFlags::from_bits_retain(libc::UMOUNT_NOFOLLOW);
    retry_while_busy(|| {
        call::run(call, &target.to_string(), deadline, &keep, || sys_mount::unmount(&path, flags))
    })
}

/// Changes the owner of the root of the mount at `target`, and never the owner of the directory beneath the mount.
pub(super) fn set_owner(
    target: &MountPoint,
    owner: Owner,
    deadline: Duration,
) -> Result<(), StepError> {
    let failed = StepError::system("chown(2)", target);
    let entry = entry_of(walk(target).map_err(failed)?, target)?;
    let leaf = entry.leaf_within(target, deadline).map_err(failed)?;
    let leaf = leaf.filter(|leaf| leaf.mount.is_some());
    let Some(leaf) = leaf else {
        return Err(StepError::Changed(format!("{target} is no longer mounted")));
    };
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    call::run("chown(2)", &target.to_string(), deadline, &[leaf.fd.as_raw_fd()], || {
        Ok(fchownat(&leaf.fd, "", Some(uid), Some(gid), AtFlags::AT_EMPTY_PATH)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_unmount_extends_the_deadlines_for_lustre_only() {
        let seconds = Duration::from_secs;
        let lustre = LustreUnmount::default();
        let deadlines = Deadlines { command: seconds(90), call: seconds(60), lustre };
        for (kind, command, call) in
            [("xfs", 90, 60), ("gfs2", 90, 60), ("lustre", 180, 180), ("lustre_tgt", 180, 180)]
        {
            let unmount = deadlines.of_unmount(kind);
            assert_eq!(
                (unmount.command, unmount.call),
                (seconds(command), seconds(call)),
                "{kind}"
            );
        }
        let patient = Deadlines { call: seconds(600), ..deadlines };
        assert_eq!(
            patient.of_unmount("lustre").call,
            seconds(600),
            "the deadline of a Lustre unmount is never shorter than that of other unmounts"
        );
    }
}
