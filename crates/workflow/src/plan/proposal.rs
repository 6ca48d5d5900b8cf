//! Proposal: the objects that say what a directive needs, for the workload manager to fill in.

use std::collections::BTreeMap;

use api::{
    Computes, ComputesBody, DirectiveBreakdown, DirectiveBreakdownSpec, DirectiveBreakdownStatus,
    NnfStorageProfile, NnfStorageProfileBody, Servers, ServersSpec, WorkflowState,
    directive_breakdown::{
        AccessPriority, AccessType, AllocationSetColocation, AllocationSetConstraints,
        AllocationStrategy, ColocationType, ComputeBreakdown, ComputeConstraints,
        ComputeLocationAccess, ComputeLocationConstraint, StorageAllocationSet, StorageBreakdown,
        StorageLifetime,
    },
};
use directive::{
    FileSystem, Jobdw,
    breakdown::{AllocationSet, Strategy, Way, access, of_jobdw},
    check::{Known, Persistent},
};
use k8s_openapi::api::core::v1::ObjectReference;

use crate::{
    change::Change,
    names::{SERVERS_FINALIZER, of_directive, owned, reference, with_directive},
    plan::{is_held, without_finalizer},
    profile::sizes,
    progress::{Outcome, Progress, user},
    view::View,
};

/// The job's Computes, which the workload manager fills.
pub fn computes(view: &View<'_>) -> Option<Change> {
    if view.computes.is_some() || view.state() == WorkflowState::Teardown {
        return None;
    }
    let metadata = owned(&view.workflow, &view.workflow.metadata.name.clone().unwrap_or_default());
    Some(Change::create(&Computes { metadata, spec: ComputesBody::default() }))
}

/// What directives may name.
pub fn known(view: &View<'_>) -> Known {
    let spec = &view.workflow.spec;
    let id = |id: i64| u32::try_from(id).unwrap_or(u32::MAX);
    let profiles = &view.site.profiles;
    let defaults = profiles.iter().filter(|(_, profile)| profile.data().default);
    let namespace = view.namespace();
    let persistent = view.site.persistent.iter().filter(|((of, _), _)| *of == namespace);
    let persistent = persistent.filter_map(|((_, name), one)| {
        let file_system = one.spec.fs_type.parse::<FileSystem>().ok()?;
        let public = one.metadata.annotations.as_ref().and_then(|all| all.get(IGNORE_UID));
        let one = Persistent {
            file_system,
            user: id(one.spec.user_id),
            is_deleted: one.metadata.deletion_timestamp.is_some()
                || one.spec.state.as_str() == "Destroying",
            is_public: public.is_some_and(|value| value.eq_ignore_ascii_case("true")),
        };
        Some((name.clone(), one))
    });
    Known {
        user: id(spec.user_id),
        group: id(spec.group_id),
        storage_profiles: profiles.iter().map(|(name, one)| (name.clone(), sizes(one))).collect(),
        default_storage_profiles: defaults.map(|(name, _)| name.clone()).collect(),
        persistent: persistent.collect(),
        ..Known::default()
    }
}

/// On persistent storage that every user may use.
const IGNORE_UID: &str = "dataworkflowservices.github.io/ignore-uid";

/// Makes the objects of a directive that are missing, and fills its breakdown in.
pub fn objects(view: &View<'_>, index: usize, jobdw: &Jobdw) -> Progress {
    let of = &view.directives[index];
    let Some(profile) = of.storage.profile.clone().or_else(|| template(view, jobdw)) else {
        return Progress::failed(user(
            "the site's default NnfStorageProfile went: name one with profile=NAME",
        ));
    };
    let sets = match of_jobdw(jobdw, &sizes(&profile)) {
        Ok(sets) => sets,
        Err(fault) => return Progress::failed(user(fault.to_string())),
    };
    let pinned =
        of.storage.profile.is_none().then(|| Change::create(&pinned(view, index, &profile)));
    let changes =
        pinned.into_iter().chain(servers(view, index)).chain(breakdown(view, index, jobdw, &sets));
    let changes: Vec<Change> = changes.collect();
    let ready =
        of.breakdown.as_ref().is_some_and(|one| one.status.as_ref().is_some_and(|of| of.ready));
    let outcome = if ready { Outcome::Done } else { Outcome::Working };
    Progress { changes: Vec::new(), outcome }.with(changes)
}

/// The profile that the directive means.
fn template(view: &View<'_>, jobdw: &Jobdw) -> Option<std::sync::Arc<NnfStorageProfile>> {
    let profiles = &view.site.profiles;
    match &jobdw.profile {
        Some(name) => profiles.get(name).cloned(),
        None => profiles.values().find(|profile| profile.data().default).cloned(),
    }
}

fn pinned(view: &View<'_>, index: usize, template: &NnfStorageProfile) -> NnfStorageProfile {
    let mut data = template.data().clone();
    (data.pinned, data.default) = (true, false);
    let metadata = owned(&view.workflow, &of_directive(&view.workflow, index));
    NnfStorageProfile {
        metadata: with_directive(metadata, &view.workflow, index),
        spec: NnfStorageProfileBody { data: data.into() },
    }
}

/// A Servers to fill in. One that somebody deleted holds its name until nothing is left of its storage, and is then made anew.
fn servers(view: &View<'_>, index: usize) -> Option<Change> {
    let storage = &view.directives[index].storage;
    match &storage.servers {
        None => {
            let mut metadata = owned(&view.workflow, &of_directive(&view.workflow, index));
            metadata.finalizers = Some(vec![SERVERS_FINALIZER.to_owned()]);
            let metadata = with_directive(metadata, &view.workflow, index);
            Some(Change::create(&Servers { metadata, spec: ServersSpec::default(), status: None }))
        }
        Some(servers)
            if servers.metadata.deletion_timestamp.is_some()
                && storage.is_gone()
                && is_held(storage) =>
        {
            without_finalizer(&**servers, SERVERS_FINALIZER)
        }
        Some(_) => None,
    }
}

fn breakdown(
    view: &View<'_>,
    index: usize,
    jobdw: &Jobdw,
    sets: &[AllocationSet],
) -> Option<Change> {
    let Some(known) = &view.directives[index].breakdown else {
        let metadata = owned(&view.workflow, &of_directive(&view.workflow, index));
        return Some(Change::create(&DirectiveBreakdown {
            metadata: with_directive(metadata, &view.workflow, index),
            spec: DirectiveBreakdownSpec {
                directive: view.workflow.spec.directives[index].clone(),
                user_id: view.workflow.spec.user_id,
            },
            status: None,
        }));
    };
    if known.status.as_ref().is_some_and(|status| status.ready) {
        return None;
    }
    let mut after = DirectiveBreakdown::clone(known);
    let (name, namespace) = (of_directive(&view.workflow, index), view.namespace());
    let storage = StorageBreakdown {
        lifetime: StorageLifetime::Job,
        reference: Some(reference("Servers", &name, &namespace)),
        allocation_sets: sets.iter().map(set).collect(),
    };
    let location =
        sets.iter().enumerate().map(|(place, set)| location(place, set, &name, &namespace));
    after.status = Some(DirectiveBreakdownStatus {
        storage: Some(storage),
        compute: Some(ComputeBreakdown {
            constraints: ComputeConstraints { location: location.collect() },
        }),
        ready: true,
        requires: jobdw.requires.clone(),
        error: None,
    });
    Change::status(&**known, &after)
}

fn set(set: &AllocationSet) -> StorageAllocationSet {
    let constraints = &set.constraints;
    let exclusive = constraints.exclusive.iter();
    StorageAllocationSet {
        allocation_strategy: match set.strategy {
            Strategy::PerCompute => AllocationStrategy::PerCompute,
            Strategy::AcrossServers => AllocationStrategy::AcrossServers,
            Strategy::SingleServer => AllocationStrategy::SingleServer,
        },
        minimum_capacity: i64::try_from(set.minimum_capacity).unwrap_or(i64::MAX),
        label: set.label.as_str().to_owned(),
        constraints: AllocationSetConstraints {
            labels: constraints.labels.clone(),
            scale: constraints.scale.map_or(0, i64::from),
            count: constraints.count.map_or(0, i64::from),
            colocation: exclusive
                .map(|key| AllocationSetColocation {
                    kind: ColocationType::Exclusive,
                    key: key.clone(),
                })
                .collect(),
        },
    }
}

fn location(
    place: usize,
    set: &AllocationSet,
    servers: &str,
    namespace: &str,
) -> ComputeLocationConstraint {
    let ways = access(set.label, set.colocate_computes).into_iter();
    let ways = ways.map(|access| ComputeLocationAccess {
        kind: match access.way {
            Way::Physical => AccessType::Physical,
            Way::Network => AccessType::Network,
        },
        priority: if access.is_mandatory {
            AccessPriority::Mandatory
        } else {
            AccessPriority::BestEffort
        },
    });
    let field_path = Some(format!("servers.spec.allocationSets[{place}]"));
    ComputeLocationConstraint {
        access: ways.collect(),
        reference: ObjectReference { field_path, ..reference("Servers", servers, namespace) },
    }
}

/// Variables that the job finds its storage by.
pub fn environment(name: &str, file_system: FileSystem, path: &str) -> BTreeMap<String, String> {
    let name = format!("DW_JOB_{}", name.replace('-', "_"));
    let kind = format!("DW_JOB_{}", file_system.as_str().to_uppercase());
    BTreeMap::from([(name, path.to_owned()), (kind, path.to_owned())])
}
