//! Converts rules and profiles of the site to the types of the `directive` crate.

use std::collections::BTreeMap;

use api::{
    DWDirectiveRule, NnfContainerProfile, NnfStorageProfile,
    nnf_storage_profile::{LustreProfile, LustreTargetOptions, StorageProfile as Local},
};
use directive::{
    FileSystem, Rule, RuleDef, Ruleset,
    profile::{
        ContainerProfile, ContainerStorage, LocalOptions, LustreOptions, StorageProfile,
        TargetOptions,
    },
};
use kube::ResourceExt;

/// Collects the rules of these objects.
pub fn ruleset<'a>(objects: impl IntoIterator<Item = &'a DWDirectiveRule>) -> Ruleset {
    Ruleset::new(objects.into_iter().flat_map(to_rules).collect())
}

fn to_rules(object: &DWDirectiveRule) -> Vec<Rule> {
    let to_rule = |rule: &api::dw_directive_rule::DWDirectiveRuleSpec| Rule {
        object: object.name_any(),
        command: rule.command.clone(),
        driver_label: rule.driver_label.clone(),
        watch_states: rule.watch_states.clone(),
        rule_defs: rule.rule_defs.iter().map(to_rule_def).collect(),
    };
    object.spec.spec.iter().map(to_rule).collect()
}

fn to_rule_def(argument: &api::dw_directive_rule::DWDirectiveRuleDef) -> RuleDef {
    RuleDef {
        key: argument.key.clone(),
        kind: argument.kind.clone(),
        pattern: argument.pattern.clone(),
        patterns: argument.patterns.clone(),
        min: argument.min,
        max: argument.max,
        is_required: argument.is_required,
        is_value_required: argument.is_value_required,
        unique_within: argument.unique_within.clone(),
    }
}

/// Returns which users and storages a container profile admits.
pub fn to_container_profile(profile: &NnfContainerProfile) -> ContainerProfile {
    let data = profile.data();
    let id = |id: i64| u32::try_from(id).unwrap_or(u32::MAX);
    let storages = data.storages.iter().map(|storage| ContainerStorage {
        name: storage.name.clone(),
        is_optional: storage.optional,
    });
    ContainerProfile {
        is_pinned: data.pinned,
        user: data.user_id.map(id),
        group: data.group_id.map(id),
        storages: storages.collect(),
    }
}

/// Returns the fields of a storage profile that determine sizes and placement.
pub fn to_storage_profile(profile: &NnfStorageProfile) -> StorageProfile {
    let data = profile.data();
    StorageProfile {
        raw: to_local_options(&data.raw_storage),
        xfs: to_local_options(&data.xfs_storage),
        gfs2: to_local_options(&data.gfs2_storage),
        lustre: to_lustre_options(&data.lustre_storage),
    }
}

/// Returns the options of a file system on volumes; `None` for Lustre.
pub fn local_profile(profile: &NnfStorageProfile, file_system: FileSystem) -> Option<&Local> {
    let data = profile.data();
    match file_system {
        FileSystem::Raw => Some(&data.raw_storage),
        FileSystem::Xfs => Some(&data.xfs_storage),
        FileSystem::Gfs2 => Some(&data.gfs2_storage),
        FileSystem::Lustre => None,
    }
}

/// Returns the values that a profile sets for variables of clients' command lines.
pub fn variable_overrides(
    profile: &NnfStorageProfile,
    file_system: FileSystem,
) -> &BTreeMap<String, String> {
    let lustre = &profile.data().lustre_storage.client_options.variable_override;
    local_profile(profile, file_system).map_or(lustre, |local| &local.variable_override)
}

fn to_local_options(profile: &Local) -> LocalOptions {
    LocalOptions {
        scaling_factor: profile.capacity_scaling_factor.clone().unwrap_or_default(),
        padding: profile.allocation_padding.clone(),
        labels: profile.storage_labels.clone(),
    }
}

fn to_lustre_options(profile: &LustreProfile) -> LustreOptions {
    let capacity = |given: &Option<String>| given.clone().unwrap_or_default();
    let target = |options: &LustreTargetOptions, capacity: String| TargetOptions {
        capacity,
        scaling_factor: String::new(),
        count: positive_number(options.count),
        scale: positive_number(options.scale),
        colocate_computes: options.colocate_computes,
        labels: options.storage_labels.clone(),
    };
    LustreOptions {
        combined: profile.combined_mgt_mdt,
        external_mgs: profile.mgt_options.external_mgs.clone(),
        standalone_pool: profile.mgt_options.standalone_mgt_pool_name.clone(),
        exclusive_mdt: profile.mdt_options.exclusive,
        mgt: target(&profile.mgt_options.target, capacity(&profile.mgt_options.capacity)),
        mdt: target(&profile.mdt_options.target, capacity(&profile.mdt_options.capacity)),
        mgt_mdt: target(
            &profile.mgt_mdt_options.target,
            capacity(&profile.mgt_mdt_options.capacity),
        ),
        ost: TargetOptions {
            scaling_factor: profile.ost_options.capacity_scaling_factor.clone().unwrap_or_default(),
            ..target(&profile.ost_options.target, String::new())
        },
    }
}

fn positive_number(given: Option<i64>) -> Option<u32> {
    u32::try_from(given?).ok().filter(|number| *number > 0)
}
