//! The targets of a Lustre file system, from its Servers.

use std::collections::BTreeMap;

use api::{
    NnfNodeStorage, Servers,
    nnf_node_storage::{FileSystemType, LustreComponents, LustreTargetType},
};

use crate::plan::allocation::{Allocation, allocations};

/// Like targets on one rabbit: one NnfNodeBlockStorage and one NnfNodeStorage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where, and how many.
    pub allocation: Allocation,
    /// Which service.
    pub kind: LustreTargetType,
    /// Index of the first among all of its kind.
    pub start: i64,
}

/// When a target comes up; it goes in the opposite order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The management server.
    Management,
    /// Metadata.
    Metadata,
    /// Object targets.
    Objects,
    /// The rabbit of the first object target.
    First,
}

/// From the first to come up to the last.
pub const STAGES: [Stage; 4] = [Stage::Management, Stage::Metadata, Stage::Objects, Stage::First];

impl Target {
    /// When it comes up.
    #[must_use]
    pub fn stage(&self) -> Stage {
        stage(Some(&self.kind), self.start)
    }
}

/// When a target that was made came up.
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

/// Whether it is a Lustre target.
#[must_use]
pub fn is_lustre(storage: &NnfNodeStorage) -> bool {
    storage.spec.file_system_type == FileSystemType::Lustre
}

/// The targets that a Servers asks for, in its order. Only one target can be the management server: of a combined set it is the
/// first, and the others serve metadata alone.
#[must_use]
pub fn targets(servers: &Servers) -> Vec<Target> {
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

/// Where all targets are, as agents and hooks are told it.
#[must_use]
pub fn components(servers: &Servers) -> LustreComponents {
    let mut all = LustreComponents::default();
    for set in &servers.spec.allocation_sets {
        for one in &set.storage {
            let of = match set.label.as_str() {
                "mgt" => &mut all.mgts,
                "mdt" => &mut all.mdts,
                "mgtmdt" => &mut all.mgtmdts,
                _ => &mut all.osts,
            };
            let count = usize::try_from(one.allocation_count).unwrap_or_default();
            of.extend(std::iter::repeat_n(one.name.clone(), count));
            if !all.nnf_nodes.contains(&one.name) {
                all.nnf_nodes.push(one.name.clone());
            }
        }
    }
    all
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

    fn told(servers: &Servers) -> Vec<String> {
        let told = |one: &Target| {
            let Allocation { rabbit, name, count, .. } = &one.allocation;
            format!("{rabbit} {name}: {count} {} from {}, {:?}", one.kind, one.start, one.stage())
        };
        targets(servers).iter().map(told).collect()
    }

    #[test]
    fn one_target_is_the_management_server_and_indexes_go_on_from_rabbit_to_rabbit() {
        let servers = servers(&[
            ("ost", &[("r1", 2), ("r2", 1), ("r1", 1)]),
            ("mgtmdt", &[("r2", 2), ("r1", 1)]),
        ]);
        assert_eq!(
            told(&servers),
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
    fn separate_targets_have_stages_of_their_own() {
        let servers =
            servers(&[("ost", &[("r1", 1)]), ("mdt", &[("r1", 2)]), ("mgt", &[("r2", 1)])]);
        let stages: Vec<Stage> = targets(&servers).iter().map(Target::stage).collect();
        assert_eq!(stages, [Stage::First, Stage::Metadata, Stage::Management]);
    }
}
