//! Clean-up after a start: unmounts Warren's mounts that no object asks for.

use std::{collections::BTreeSet, path::PathBuf};

use super::{Rejection, unmount};
use crate::{Step, desired::MountPoint, observed::Observed};

/// Plans the unmounts, the latest mount first, because a mount may lie on another. Rejects a mount that a foreign mount
/// covers, once all others are gone.
pub(super) fn only(keep: &[MountPoint], observed: &Observed) -> Result<Vec<Step>, Rejection> {
    let keep: BTreeSet<_> = keep.iter().map(MountPoint::path).collect();
    let mut staying: Vec<PathBuf> = Vec::new();
    let mut covered = None;
    let mut steps = Vec::new();
    for (target, there) in observed.mounts.iter().rev() {
        let path = target.path();
        if !there.is_warrens() || keep.contains(&path) {
            staying.push(path);
        } else if let Some(at) = staying.iter().find(|above| path.starts_with(above)) {
            covered = Some(Rejection::Covered { target: target.clone(), at: at.clone() });
        } else {
            steps.push(unmount::plainly(target, there.device));
            steps.push(Step::RemoveMountPoint { target: target.clone() });
        }
    }
    match covered {
        Some(rejection) if steps.is_empty() => Err(rejection),
        _ => Ok(steps),
    }
}
