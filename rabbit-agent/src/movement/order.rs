//! Makes the order for a copier.

use std::time::Duration;

use api::nnf_data_movement_profile::NnfDataMovementProfileData;
use movement::order::{Order, Task, User};
use storage::linux::kind_at;

use super::{
    args::MovementConfig,
    desired::{Desired, Side, SideKind},
    record::MovementRecord,
};

/// Between reports of progress where a profile wants none: the status then tells begin and end.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Returns the time between two reports of progress.
pub(super) fn interval(profile: &NnfDataMovementProfileData) -> Duration {
    match u64::try_from(profile.progress_interval_seconds) {
        Ok(0) | Err(_) => NEVER,
        Ok(seconds) => Duration::from_secs(seconds).min(NEVER),
    }
}

/// Returns the order for a process.
pub(super) fn order(
    task: Task,
    desired: &Desired,
    profile: &NnfDataMovementProfileData,
    (config, record): (&MovementConfig, &MovementRecord),
) -> Order {
    Order {
        task,
        // As sites' profiles have it (`setpriv --clear-groups`): no supplementary groups.
        user: User { uid: desired.user, gid: desired.group, groups: Vec::new() },
        source: desired.source.place.clone(),
        destination: desired.destination.place.clone(),
        index_directory: desired.index_directory.clone(),
        creates_directories: profile.create_dest_dir,
        // dcp copies none either, and some file systems have none.
        copies_xattrs: false,
        syncs: desired.syncs(),
        threads: config.threads,
        block: config.block,
        rate: config.rate,
        interval: interval(profile).as_millis().try_into().unwrap_or(u64::MAX),
        prefix: format!(".warren-{}", desired.uid),
        state: record.directory().to_owned(),
    }
}

/// Checks that the roots of both sides are there.
///
/// # Errors
/// With the mount that is missing.
pub(super) fn check_mounts(desired: &Desired) -> Result<(), String> {
    [&desired.source, &desired.destination].into_iter().try_for_each(check_mount)
}

fn check_mount(side: &Side) -> Result<(), String> {
    if !side.needs_mount() {
        return Ok(());
    }
    let root = side.place.root.display();
    match (kind_at(&side.place.root), side.kind) {
        (Ok(Some(_)), _) => Ok(()),
        (Ok(None), SideKind::Lustre) => Err(format!(
            "global Lustre {root} is not mounted on this rabbit: mount it there, at the mountRoot of its LustreFileSystem"
        )),
        (Ok(None), _) => Err(format!("storage {root} is not mounted on this rabbit")),
        (Err(error), _) => Err(format!("read the mount table: {error}")),
    }
}
