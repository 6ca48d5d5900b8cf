//! Clean-up after a start: unmounts Warren's mounts that no object asks for.

use std::{collections::BTreeSet, path::PathBuf};

use super::{Rejection, unmount};
use crate::{Step, desired::MountPoint, observed::Observed};

/// Plans the unmounts, the latest mount first, because a mount may lie on an earlier one. If a foreign mount covers one
/// of Warren's unwanted mounts, first plans to unmount all other unwanted mounts, and returns a rejection when none of
/// these is left.
pub(super) fn unmount_all_except(
    keep: &[MountPoint],
    observed: &Observed,
) -> Result<Vec<Step>, Rejection> {
    let keep: BTreeSet<_> = keep.iter().map(MountPoint::path).collect();
    let mut staying: Vec<PathBuf> = Vec::new();
    let mut covered = None;
    let mut steps = Vec::new();
    for (target, existing) in observed.mounts.iter().rev() {
        let path = target.path();
        if !existing.is_warrens() || keep.contains(&path) {
            staying.push(path);
        } else if let Some(at) = staying.iter().find(|above| path.starts_with(above)) {
            covered = Some(Rejection::Covered { target: target.clone(), at: at.clone() });
        } else {
            steps.push(unmount::plain_unmount(target, existing.device));
            steps.push(Step::RemoveMountPoint { target: target.clone() });
        }
    }
    match covered {
        Some(rejection) if steps.is_empty() => Err(rejection),
        _ => Ok(steps),
    }
}
