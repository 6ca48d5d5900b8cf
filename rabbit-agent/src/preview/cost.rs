//! Says what a step destroys, and how long it may take. Does no I/O.

use std::fmt;

use api::{NnfNodeBlockStorage, NnfNodeStorage, RabbitLabels, names::label};
use bytesize::ByteSize;
use storage::{
    Desired, Observed, Step,
    desired::NamespaceId,
    observed::NamespaceOwner,
    step::{VolumeAction, ZfsAction},
};

use crate::{core::Cache, kinds::container::step};

/// Longest time that an NVMe drive may take to erase a namespace: the deadline of the command Format NVM (`ERASE` in
/// crate drives).
const LONGEST_ERASURE: &str = "at most 1 h";

/// Deadline of zeroing a namespace (`ZEROED_WITHIN` in crate drives).
const LONGEST_ZEROING: &str = "at most 4 h";

const UNFINISHED: &str = "holds no data: its creation was interrupted";

/// The user whose data a storage holds, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataOwner(String);

impl DataOwner {
    /// Returns the user of a NnfNodeStorage.
    pub fn of_storage(storage: &NnfNodeStorage) -> Self {
        let user = format!("user {}", storage.spec.user_id);
        Self(match storage.label(label::WORKFLOW_NAME) {
            Some(workflow) => format!("{user} (workflow {workflow})"),
            None => user,
        })
    }

    /// Returns the user of storage that no object names.
    pub fn unknown() -> Self {
        Self("an unknown user".to_owned())
    }

    /// Returns the user of a NnfNodeBlockStorage: the user of a NnfNodeStorage on it. Without one, the workflow or the
    /// object itself: a NnfNodeBlockStorage names no user.
    pub fn of_block(block: &NnfNodeBlockStorage, cache: &Cache) -> Self {
        let name = block.metadata.name.as_deref().unwrap_or_default();
        if let Some(storage) = cache.storages_on(name).next() {
            return Self::of_storage(storage);
        }
        Self(match block.label(label::WORKFLOW_NAME) {
            Some(workflow) => format!("workflow {workflow}"),
            None => format!("NnfNodeBlockStorage {name}"),
        })
    }
}

impl fmt::Display for DataOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The storage for which steps were planned.
#[derive(Debug, Clone, Copy)]
pub struct Stake<'a> {
    pub owner: &'a DataOwner,
    /// The observation for which the steps were planned.
    pub observed: &'a Observed,
    /// Whether the storage is to be removed. Otherwise the steps remove only what an interruption left.
    pub is_removed: bool,
}

impl<'a> Stake<'a> {
    /// Returns the stake of a unit of work.
    pub fn of_unit(unit: &Desired, owner: &'a DataOwner, observed: &'a Observed) -> Self {
        let is_removed = matches!(
            unit,
            Desired::Released(_) | Desired::FileSystemGone(_) | Desired::TargetGone(_)
        );
        Self { owner, observed, is_removed }
    }
}

/// Returns the text of a step, with what the step destroys.
#[must_use]
pub fn with_cost(step: &Step, stake: Stake<'_>) -> String {
    match cost(step, stake) {
        Some(cost) => format!("{step} ({cost})"),
        None => step.to_string(),
    }
}

/// Returns what a step destroys; `None` for a step that destroys nothing. The planner makes a file system only on a
/// blank device or after [`Step::WipeSignature`].
fn cost(step: &Step, Stake { owner, observed, is_removed }: Stake<'_>) -> Option<String> {
    Some(match step {
        Step::EraseNamespace { id, .. } => erasure(id, owner, observed)?,
        Step::ZeroNamespace { id, .. } => zeroing(id, observed)?,
        // Only a namespace in a file is deleted with its data.
        Step::DeleteNamespace { id, .. } if is_in_file(id, observed) => {
            erasure(id, owner, observed)?
        }
        Step::ForgetNamespace { .. } => format!("gives up the data of {owner} on the lost drive"),
        Step::Volume {
            action: VolumeAction::RemoveLogical | VolumeAction::RemoveGroup, ..
        }
        | Step::Zfs { action: ZfsAction::Destroy, .. }
            if is_removed =>
        {
            format!("destroys the data of {owner}")
        }
        Step::Volume {
            action: VolumeAction::RemoveLogical | VolumeAction::RemoveGroup, ..
        }
        | Step::Zfs { action: ZfsAction::Destroy, .. } => UNFINISHED.to_owned(),
        Step::Volume { action: VolumeAction::ReduceGroup, .. } => {
            format!("gives up the data of {owner} on the lost devices")
        }
        Step::WipeSignature { .. } | Step::Zfs { action: ZfsAction::Discard, .. } => {
            UNFINISHED.to_owned()
        }
        _ => return None,
    })
}

/// Returns whether a namespace lies in a file, so that its deletion destroys its data.
fn is_in_file(id: &NamespaceId, observed: &Observed) -> bool {
    let mut namespaces = observed.namespaces.iter();
    let found = namespaces.find(|namespace| namespace.id == *id);
    observed.pool.is_some() && found.is_some_and(|namespace| !namespace.needs_erasure)
}

fn zeroing(id: &NamespaceId, observed: &Observed) -> Option<String> {
    let namespace = observed.namespaces.iter().find(|namespace| namespace.id == *id)?;
    Some(format!("writes {}, {LONGEST_ZEROING}", ByteSize(namespace.size).display().iec()))
}

fn erasure(id: &NamespaceId, owner: &DataOwner, observed: &Observed) -> Option<String> {
    // A namespace that the drive no longer has only loses its record.
    let namespace = observed.namespaces.iter().find(|namespace| namespace.id == *id)?;
    let size = ByteSize(namespace.size).display().iec();
    if let NamespaceOwner::Partial(_) = namespace.owner {
        return Some(format!("{size}, {UNFINISHED}"));
    }
    let erases = format!("erases {size} of {owner}");
    // A file drive deletes the namespace's file, which takes no time that is worth a word.
    Some(if observed.pool.is_some() { erases } else { format!("{erases}, {LONGEST_ERASURE}") })
}

/// Returns the text of a step on containers, with what the step ends or deletes.
#[must_use]
pub fn with_container_cost(step: &step::Step) -> String {
    let cost = match step {
        step::Step::Stop(attempt) => {
            format!("kills its processes after {} s", attempt.grace)
        }
        step::Step::Remove(attempt) => {
            format!("kills its processes after {} s, deletes its logs", attempt.grace)
        }
        step::Step::RemoveVolumes(_) => "deletes the files that its containers shared".to_owned(),
        _ => return step.to_string(),
    };
    format!("{step} ({cost})")
}

#[cfg(test)]
mod tests;
