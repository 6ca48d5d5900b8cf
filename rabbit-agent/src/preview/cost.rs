//! Says what a step destroys, and how long it may take. Does no I/O.

use api::{NnfNodeBlockStorage, NnfNodeStorage, RabbitLabels, names::label};
use bytesize::ByteSize;
use storage::{
    Observed, Step,
    desired::NamespaceId,
    observed::NamespaceOwner,
    step::{VolumeAction, ZfsAction},
};

use crate::{cache::Cache, container::step};

/// Longest time that an NVMe drive may take to erase a namespace: the deadline of the command Format NVM (`ERASE` in
/// crate storage-linux).
const LONGEST_ERASURE: &str = "at most 1 h";

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

/// Returns the text of a step, with what the step destroys. `observed` is the observation for which the step was planned.
#[must_use]
pub fn with_cost(step: &Step, owner: &DataOwner, observed: &Observed) -> String {
    match cost(step, owner, observed) {
        Some(cost) => format!("{step} ({cost})"),
        None => step.to_string(),
    }
}

/// Returns what a step destroys; `None` for a step that destroys nothing. The planner makes a file system only on a
/// blank device or after [`Step::WipeSignature`].
fn cost(step: &Step, DataOwner(owner): &DataOwner, observed: &Observed) -> Option<String> {
    Some(match step {
        Step::DeleteNamespace { id, .. } => erasure(id, owner, observed)?,
        Step::ForgetNamespace { .. } => format!("gives up the data of {owner} on the lost drive"),
        Step::Volume {
            action: VolumeAction::RemoveLogical | VolumeAction::RemoveGroup, ..
        }
        | Step::Zfs { action: ZfsAction::Destroy, .. } => format!("destroys the data of {owner}"),
        Step::Volume { action: VolumeAction::ReduceGroup, .. } => {
            format!("gives up the data of {owner} on the lost devices")
        }
        Step::WipeSignature { .. } | Step::Zfs { action: ZfsAction::Discard, .. } => {
            "holds no data: its creation was interrupted".to_owned()
        }
        _ => return None,
    })
}

fn erasure(id: &NamespaceId, owner: &str, observed: &Observed) -> Option<String> {
    // A namespace that the drive no longer has only loses its record.
    let namespace = observed.namespaces.iter().find(|namespace| namespace.id == *id)?;
    let size = ByteSize(namespace.size).display().iec();
    if let NamespaceOwner::Partial(_) = namespace.owner {
        return Some(format!("{size}, holds no data: its creation was interrupted"));
    }
    // A file drive deletes the namespace's file, which takes no time that is worth a word.
    let time = if observed.pool.is_some() { "" } else { ", " };
    let longest = if observed.pool.is_some() { "" } else { LONGEST_ERASURE };
    Some(format!("erases {size} of {owner}{time}{longest}"))
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
