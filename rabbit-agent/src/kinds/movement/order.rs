//! Makes the order for `datamover`.

use std::time::Duration;

use api::nnf_data_movement_profile::{NnfDataMovementProfileData, SyncDestination};
use movement::order::{Order, Task, User};
use storage_linux::kind_at;

use super::{
    args::MovementConfig,
    desired::{Desired, Side, SideKind},
    record::MovementRecord,
};

/// Interval of progress reports when a profile turns them off: the status then shows only begin and end.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Returns the time between two reports of progress.
pub(super) fn interval(profile: &NnfDataMovementProfileData) -> Duration {
    match u64::try_from(profile.progress_interval_seconds) {
        Ok(0) | Err(_) => NEVER,
        Ok(seconds) => Duration::from_secs(seconds).min(NEVER),
    }
}

/// Returns the maximum bytes per second that a profile sets; `None` for no limit.
fn rate(profile: &NnfDataMovementProfileData) -> Option<u64> {
    u64::try_from(profile.bytes_per_second).ok().filter(|rate| *rate > 0)
}

/// Returns the order for one process.
pub(super) fn order(
    task: Task,
    desired: &Desired,
    profile: &NnfDataMovementProfileData,
    (config, record): (&MovementConfig, &MovementRecord),
) -> Order {
    Order {
        task,
        // No supplementary groups: sites' profiles call `setpriv --clear-groups` too.
        user: User { uid: desired.user, gid: desired.group, groups: Vec::new() },
        source: desired.source.place.clone(),
        destination: desired.destination.place.clone(),
        index_directory: desired.index_directory.clone(),
        share: desired.share,
        creates_directories: profile.create_dest_dir,
        copies_xattrs: profile.copy_xattrs,
        syncs: match profile.sync_destination {
            SyncDestination::Always => true,
            SyncDestination::Never => false,
            SyncDestination::CopyOut | SyncDestination::Other(_) => desired.is_copy_out,
        },
        threads: config.threads,
        block: config.block,
        rate: config.rate.into_iter().chain(rate(profile)).min(),
        interval: interval(profile).as_millis().try_into().unwrap_or(u64::MAX),
        prefix: format!(".warren-{}", desired.uid),
        state: record.directory().to_owned(),
    }
}

/// Checks that the roots of source and destination are mounted.
///
/// # Errors
/// Names the root that is not mounted.
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
            "global Lustre {root} is not mounted on this rabbit: mount it at this path, the mountRoot of its LustreFileSystem"
        )),
        (Ok(None), _) => Err(format!("storage {root} is not mounted on this rabbit")),
        (Err(error), _) => Err(format!("read the mount table: {error}")),
    }
}
