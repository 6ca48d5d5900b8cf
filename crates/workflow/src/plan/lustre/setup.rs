//! Setup: creates targets in their order, then runs the profile's commands, then changes the owner.

use api::{
    NnfNodeStorage, NnfStorageProfile, ResourceError,
    names::label,
    nnf_node_storage::{BackFs, LustreStorageSpec},
};
use kube::ResourceExt;

use super::{
    mgt::{self, LustreSource},
    owner,
    targets::{STAGES, Stage, Target, components, targets_of},
};
use crate::{
    change::Change,
    objects::allocation::Allocation,
    plan::storage::{self, StorageMaker, deleted_storage_error},
    progress::Progress,
    report::is_completed,
};

/// Makes the file system.
pub fn make_file_system(maker: &StorageMaker<'_>, profile: &NnfStorageProfile) -> Progress {
    let targets = targets_of(maker.servers);
    let all: Vec<Allocation> = targets.iter().map(|target| target.allocation.clone()).collect();
    let status =
        storage::servers_status::update(maker.group(), maker.servers, &all, maker.view.now);
    make_all(maker, profile, &targets, &all).with(status)
}

fn make_all(
    maker: &StorageMaker<'_>,
    profile: &NnfStorageProfile,
    targets: &[Target],
    all: &[Allocation],
) -> Progress {
    if let Some(error) = lost_target(maker, targets, all) {
        return Progress::failed(error);
    }
    let group = maker.group();
    // Block storage is created everywhere at once; only the targets on it have an order.
    let is_new = |allocation: &&Allocation| !group.blocks.contains_key(&object_key(allocation));
    let blocks: Vec<Change> = all
        .iter()
        .filter(is_new)
        .map(|allocation| Change::create(&maker.block(allocation)))
        .collect();
    let source = match mgt::name_and_address(maker, profile) {
        Ok(source) => source,
        Err(progress) => return progress.with(blocks),
    };
    storage::progress(group, all)
        .with(blocks)
        .with(create_next(maker, targets, &source))
        .then(|| finish_file_system(maker, profile, targets, &source))
}

/// Runs the profile's commands and changes the owner, once for the whole file system. Does neither if the Servers asks
/// only for a management target.
fn finish_file_system(
    maker: &StorageMaker<'_>,
    profile: &NnfStorageProfile,
    targets: &[Target],
    source: &LustreSource,
) -> Progress {
    let Some(first) = targets.iter().find(|target| target.stage() == Stage::First) else {
        return Progress::default();
    };
    mgt::run_commands(maker, profile, source).then(|| owner::change_owner(maker, first, source))
}

fn object_key(allocation: &Allocation) -> controller::ObjectKey {
    (allocation.rabbit.clone(), allocation.name.clone())
}

/// Creates the targets of the first stage that is not ready.
fn create_next(maker: &StorageMaker<'_>, targets: &[Target], source: &LustreSource) -> Vec<Change> {
    let group = maker.group();
    let mut changes = Vec::new();
    for stage in STAGES {
        let in_stage: Vec<&Target> =
            targets.iter().filter(|target| target.stage() == stage).collect();
        let missing = in_stage
            .iter()
            .filter(|target| !group.file_systems.contains_key(&object_key(&target.allocation)));
        changes.extend(missing.map(|target| Change::create(&new_target(maker, target, source))));
        if !in_stage.iter().all(|target| storage::is_ready(group, &target.allocation)) {
            break;
        }
    }
    changes
}

/// Returns an error if a target was deleted: after Setup any target, during Setup a target that targets of
/// a later stage need.
fn lost_target(
    maker: &StorageMaker<'_>,
    targets: &[Target],
    all: &[Allocation],
) -> Option<ResourceError> {
    let group = maker.group();
    if is_completed(maker.view, maker.index, "Setup") {
        return deleted_storage_error(group, all);
    }
    let is_there =
        |target: &&Target| group.file_systems.contains_key(&object_key(&target.allocation));
    let latest = targets.iter().filter(is_there).map(Target::stage).max()?;
    let before = targets.iter().filter(|target| target.stage() < latest);
    let before: Vec<Allocation> = before.map(|target| target.allocation.clone()).collect();
    deleted_storage_error(group, &before)
}

fn new_target(maker: &StorageMaker<'_>, target: &Target, source: &LustreSource) -> NnfNodeStorage {
    let mut object = maker.file_system(&target.allocation);
    object.spec.lustre_storage = LustreStorageSpec {
        file_system_name: source.name.clone(),
        target_type: Some(target.kind.clone()),
        start_index: target.start,
        mgs_address: source.address.clone(),
        back_fs: Some(BackFs::Zfs),
        lustre_components: components(maker.servers).into(),
    }
    .into();
    if target.stage() == Stage::First {
        object.labels_mut().insert(label::ALLOCATION_SET_OST0.to_owned(), "true".to_owned());
    }
    object
}
