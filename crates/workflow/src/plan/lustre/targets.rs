//! Derives the targets of a Lustre file system from its Servers.

use std::collections::BTreeMap;

use api::{
    NnfNodeStorage, Servers,
    nnf_node_storage::{FileSystemType, LustreComponents, LustreTargetType},
};

use crate::objects::allocation::{Allocation, allocations};

/// Targets of one kind on one rabbit: one NnfNodeBlockStorage and one NnfNodeStorage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Rabbit, size and number of the targets.
    pub allocation: Allocation,
    /// Kind of the targets.
    pub kind: LustreTargetType,
    /// Lustre index of the first of these targets.
    pub start: i64,
}

/// Stages of Setup; Teardown goes through them in reverse order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The management target, alone or combined with metadata.
    Management,
    /// Metadata targets without a management server.
    Metadata,
    /// All object targets but the first.
    Objects,
    /// The first object target.
    First,
}

/// All stages in the order of Setup.
pub const STAGES: [Stage; 4] = [Stage::Management, Stage::Metadata, Stage::Objects, Stage::First];

impl Target {
    /// Returns the stage in which the target is created.
    #[must_use]
    pub fn stage(&self) -> Stage {
        stage(Some(&self.kind), self.start)
    }
}

/// Returns the stage in which an existing target was created.
#[must_use]
pub fn stage_of(target: &NnfNodeStorage) -> Stage {
    stage(target.spec.lustre_storage.target_type.as_ref(), target.spec.lustre_storage.start_index)
}

fn stage(kind: Option<&LustreTargetType>, start: i64) -> Stage {
    match kind {
        Some(LustreTargetType::Mgt | LustreTargetType::MgtMdt) => Stage::Management,
        Some(LustreTargetType::Mdt) => Stage::Metadata,
        Some(LustreTargetType::Ost) if start == 0 => Stage::First,
        Some(LustreTargetType::Ost | LustreTargetType::Other(_)) | None => Stage::Objects,
    }
}

/// Returns true if a file system object is a Lustre target.
#[must_use]
pub fn is_lustre(storage: &NnfNodeStorage) -> bool {
    storage.spec.file_system_type == FileSystemType::Lustre
}

/// Returns the targets that a Servers asks for, in the order of the Servers. Only one target can be the management
/// server: the first target of a `mgtmdt` set. The other targets of this set become metadata targets.
#[must_use]
pub fn targets_of(servers: &Servers) -> Vec<Target> {
    let mut starts: BTreeMap<String, i64> = BTreeMap::new();
    let target = |allocation: Allocation| {
        let next = starts.entry(allocation.label.clone()).or_default();
        let start = *next;
        *next = start.saturating_add(allocation.count);
        let kind = match LustreTargetType::from(allocation.label.as_str()) {
            LustreTargetType::MgtMdt if start > 0 => LustreTargetType::Mdt,
            kind => kind,
        };
        Target { allocation, kind, start }
    };
    allocations(servers).into_iter().map(target).collect()
}

/// Returns the rabbits of all targets, in the form that agents and hooks get.
#[must_use]
pub fn components(servers: &Servers) -> LustreComponents {
    let mut components = LustreComponents::default();
    for set in &servers.spec.allocation_sets {
        for storage in &set.storage {
            let rabbits = match set.label.as_str() {
                "mgt" => &mut components.mgts,
                "mdt" => &mut components.mdts,
                "mgtmdt" => &mut components.mgtmdts,
                _ => &mut components.osts,
            };
            let count = usize::try_from(storage.allocation_count).unwrap_or_default();
            rabbits.extend(std::iter::repeat_n(storage.name.clone(), count));
            if !components.nnf_nodes.contains(&storage.name) {
                components.nnf_nodes.push(storage.name.clone());
            }
        }
    }
    components
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn servers(sets: &[(&str, &[(&str, i64)])]) -> Servers {
        let set = |(label, on): &(&str, &[(&str, i64)])| {
            let storage: Vec<_> = on
                .iter()
                .map(|(name, count)| json!({"name": name, "allocationCount": count}))
                .collect();
            json!({"label": label, "allocationSize": 5_000_000_000_i64, "storage": storage})
        };
        from_value(json!({
            "metadata": {"name": "w-0", "namespace": "default"},
            "spec": {"allocationSets": sets.iter().map(set).collect::<Vec<_>>()},
        }))
        .unwrap()
    }

    fn describe(servers: &Servers) -> Vec<String> {
        let to_text = |target: &Target| {
            let Allocation { rabbit, name, count, .. } = &target.allocation;
            format!(
                "{rabbit} {name}: {count} {} from {}, {:?}",
                target.kind,
                target.start,
                target.stage()
            )
        };
        targets_of(servers).iter().map(to_text).collect()
    }

    #[test]
    fn only_the_first_mgtmdt_is_a_management_server_and_indexes_continue_across_rabbits() {
        let servers = servers(&[
            ("ost", &[("r1", 2), ("r2", 1), ("r1", 1)]),
            ("mgtmdt", &[("r2", 2), ("r1", 1)]),
        ]);
        assert_eq!(
            describe(&servers),
            [
                "r1 default-w-0-ost-0: 2 ost from 0, First",
                "r2 default-w-0-ost-0: 1 ost from 2, Objects",
                "r1 default-w-0-ost-1: 1 ost from 3, Objects",
                "r2 default-w-0-mgtmdt-0: 1 mgtmdt from 0, Management",
                "r2 default-w-0-mgtmdt-1: 1 mdt from 1, Metadata",
                "r1 default-w-0-mgtmdt-0: 1 mdt from 2, Metadata",
            ]
        );
        let all = components(&servers);
        assert_eq!((all.osts.len(), all.mgtmdts.len(), all.nnf_nodes.len()), (4, 3, 2));
    }

    #[test]
    fn mgt_mdt_and_ost_sets_have_their_own_stages() {
        let servers =
            servers(&[("ost", &[("r1", 1)]), ("mdt", &[("r1", 2)]), ("mgt", &[("r2", 1)])]);
        let stages: Vec<Stage> = targets_of(&servers).iter().map(Target::stage).collect();
        assert_eq!(stages, [Stage::First, Stage::Metadata, Stage::Management]);
    }
}
