//! Setup: targets in their order, then the site's commands, then the owner.

use api::{
    NnfNodeStorage, NnfStorageProfile, ResourceError,
    names::label,
    nnf_node_storage::{BackFs, LustreStorageSpec},
};
use kube::ResourceExt;

use super::{
    mgt::{self, Named},
    owner,
    targets::{STAGES, Stage, Target, components, targets},
};
use crate::{
    change::Change,
    plan::{
        allocation::Allocation,
        setup::{self, Maker, lost},
    },
    progress::Progress,
    report::is_completed,
};

/// Makes the file system.
pub fn storage(maker: &Maker<'_>, profile: &NnfStorageProfile) -> Progress {
    let targets = targets(maker.servers);
    let all: Vec<Allocation> = targets.iter().map(|one| one.allocation.clone()).collect();
    let status = setup::servers_status::update(maker.group(), maker.servers, &all, maker.view.now);
    all_made(maker, profile, &targets, &all).with(status)
}

fn all_made(
    maker: &Maker<'_>,
    profile: &NnfStorageProfile,
    targets: &[Target],
    all: &[Allocation],
) -> Progress {
    if let Some(error) = lost_target(maker, targets, all) {
        return Progress::failed(error);
    }
    let group = maker.group();
    // Space is taken everywhere at once; only what is made on it has an order.
    let is_new = |one: &&Allocation| !group.blocks.contains_key(&place(one));
    let blocks: Vec<Change> =
        all.iter().filter(is_new).map(|one| Change::create(&maker.block(one))).collect();
    let named = match mgt::named(maker, profile) {
        Ok(named) => named,
        Err(progress) => return progress.with(blocks),
    };
    setup::progress(group, all)
        .with(blocks)
        .with(next(maker, targets, &named))
        .then(|| whole(maker, profile, targets, &named))
}

/// What is done once to a whole file system. A lone management target has none yet.
fn whole(
    maker: &Maker<'_>,
    profile: &NnfStorageProfile,
    targets: &[Target],
    named: &Named,
) -> Progress {
    let Some(first) = targets.iter().find(|one| one.stage() == Stage::First) else {
        return Progress::default();
    };
    mgt::commands(maker, profile, named).then(|| owner::given(maker, first, named))
}

fn place(one: &Allocation) -> controller::ObjectKey {
    (one.rabbit.clone(), one.name.clone())
}

/// The targets whose turn it is.
fn next(maker: &Maker<'_>, targets: &[Target], named: &Named) -> Vec<Change> {
    let group = maker.group();
    let mut changes = Vec::new();
    for stage in STAGES {
        let of: Vec<&Target> = targets.iter().filter(|one| one.stage() == stage).collect();
        let missing =
            of.iter().filter(|one| !group.file_systems.contains_key(&place(&one.allocation)));
        changes.extend(missing.map(|one| Change::create(&target(maker, one, named))));
        if !of.iter().all(|one| setup::is_ready(group, &one.allocation)) {
            break;
        }
    }
    changes
}

/// What was made and is gone: of a finished Setup anything, of another what later targets were made with.
fn lost_target(maker: &Maker<'_>, targets: &[Target], all: &[Allocation]) -> Option<ResourceError> {
    let group = maker.group();
    if is_completed(maker.view, maker.index, "Setup") {
        return lost(group, all);
    }
    let is_there = |one: &&Target| group.file_systems.contains_key(&place(&one.allocation));
    let latest = targets.iter().filter(is_there).map(Target::stage).max()?;
    let before = targets.iter().filter(|one| one.stage() < latest);
    let before: Vec<Allocation> = before.map(|one| one.allocation.clone()).collect();
    lost(group, &before)
}

fn target(maker: &Maker<'_>, target: &Target, named: &Named) -> NnfNodeStorage {
    let mut object = maker.file_system(&target.allocation);
    object.spec.lustre_storage = LustreStorageSpec {
        file_system_name: named.name.clone(),
        target_type: Some(target.kind.clone()),
        start_index: target.start,
        mgs_address: named.address.clone(),
        back_fs: Some(BackFs::Zfs),
        lustre_components: components(maker.servers).into(),
    }
    .into();
    if target.stage() == Stage::First {
        object.labels_mut().insert(label::ALLOCATION_SET_OST0.to_owned(), "true".to_owned());
    }
    object
}
