//! Start-up garbage collection: mounts of ours that nobody wants any more.

use std::collections::BTreeSet;

use crate::{
    Step,
    desired::{FileSystemKind, MountPoint},
    observed::{MountedThing, Observed},
};

/// Last mounted goes first: a mount may stand on another.
pub(super) fn only(keep: &[MountPoint], observed: &Observed) -> Vec<Step> {
    let keep: BTreeSet<_> = keep.iter().map(MountPoint::path).collect();
    observed
        .mounts
        .iter()
        .rev()
        .filter(|(target, there)| is_ours(there) && !keep.contains(&target.path()))
        .flat_map(|(target, _)| {
            let line = target.to_string();
            [
                Step::Unmount { target: target.clone(), line },
                Step::RemoveMountPoint { target: target.clone() },
            ]
        })
        .collect()
}

fn is_ours(there: &MountedThing) -> bool {
    there.superblock.is_some()
        || (there.namespace.is_some() && there.kind == FileSystemKind::Raw.as_str())
}
