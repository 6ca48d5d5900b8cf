//! Checks whether the source and the destination of a copy exist.

use std::collections::BTreeSet;

use super::{Known, MeaningFault, file_system_of, find_profile, list_choices};
use crate::command::{Command, Copy, FileSystem};
use crate::location::{Inside, Location, is_beneath};

pub(super) fn faults(
    copy: &Copy,
    commands: &[(usize, Command)],
    known: &Known,
) -> Vec<MeaningFault> {
    let ends = [("source", &copy.source), ("destination", &copy.destination)];
    let mut faults: Vec<_> =
        ends.into_iter().filter_map(|(key, end)| fault(key, end, commands, known)).collect();
    let names: Vec<&String> = known.movement_profiles.iter().collect();
    let profile = find_profile(
        copy.profile.as_deref(),
        &known.default_movement_profiles,
        &names,
        "NnfDataMovementProfile",
    );
    faults.extend(profile.err());
    faults
}

fn fault(
    key: &str,
    end: &Location,
    commands: &[(usize, Command)],
    known: &Known,
) -> Option<MeaningFault> {
    match end {
        Location::Job(inside) => storage(key, inside, true, commands, known),
        Location::Persistent(inside) => storage(key, inside, false, commands, known),
        Location::Global(path) => path_fault(key, path, &known.copy_roots, known),
    }
}

fn storage(
    key: &str,
    inside: &Inside,
    is_job: bool,
    commands: &[(usize, Command)],
    known: &Known,
) -> Option<MeaningFault> {
    let (needed, prefix) =
        if is_job { ("jobdw", "$DW_JOB_") } else { ("persistentdw", "$DW_PERSISTENT_") };
    let (name, value) = (inside.name.clone(), format!("{prefix}{}{}", inside.name, inside.path));
    match file_system_of(&name, is_job, commands, known) {
        None => Some(MeaningFault::NoStorage { key: key.to_owned(), value, needed, name }),
        Some(FileSystem::Raw) => Some(MeaningFault::Raw { key: key.to_owned(), value, name }),
        Some(FileSystem::Xfs | FileSystem::Gfs2 | FileSystem::Lustre) => None,
    }
}

/// Returns a fault if a path is on no global Lustre and beneath none of the `other` directories. No path is refused while
/// the global Lustres are unknown.
pub(super) fn path_fault(
    key: &str,
    path: &str,
    other: &[String],
    known: &Known,
) -> Option<MeaningFault> {
    let roots: BTreeSet<&String> = known.lustre_roots.as_ref()?.iter().chain(other).collect();
    if roots.iter().any(|root| is_beneath(path, root)) {
        return None;
    }
    let known = list_choices("write a path beneath", roots.into_iter());
    Some(MeaningFault::NoLustre { key: key.to_owned(), value: path.to_owned(), known })
}
