//! Proposal: the objects that say what a directive needs, for the workload manager to fill in.

use std::collections::BTreeMap;

use api::{
    Computes, ComputesBody, DirectiveBreakdown, DirectiveBreakdownSpec, DirectiveBreakdownStatus,
    NnfStorageProfile, NnfStorageProfileBody, ResourceError, Servers, ServersSpec, WorkflowState,
    directive_breakdown::{
        AccessPriority, AccessType, AllocationSetColocation, AllocationSetConstraints,
        AllocationStrategy, ColocationType, ComputeBreakdown, ComputeConstraints,
        ComputeLocationAccess, ComputeLocationConstraint, StorageAllocationSet, StorageBreakdown,
        StorageLifetime,
    },
};
use controller::ObjectKey;
use directive::{
    FileSystem, Jobdw,
    breakdown::{Access, AllocationSet, BreakdownFault, Strategy, Way, access, of_jobdw},
    check::{Known, Persistent},
    profile::StorageProfile,
};
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use crate::{
    change::Change,
    instance,
    names::{SERVERS_FINALIZER, of_directive, owned, reference, with_directive},
    plan::{global_lustre, teardown::is_held, without_finalizer},
    profile::{admission, sizes},
    progress::{Outcome, Progress, transient_error, user_error},
    site::Site,
    view::{Group, View},
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
        let one = Persistent {
            file_system,
            user: id(one.spec.user_id),
            is_deleted: instance::is_going(one),
            is_public: instance::is_public(one),
        };
        Some((name.clone(), one))
    });
    let containers = view.site.container_profiles.iter();
    let containers = containers.map(|(name, one)| (name.clone(), admission(one)));
    Known {
        user: id(spec.user_id),
        group: id(spec.group_id),
        storage_profiles: profiles.iter().map(|(name, one)| (name.clone(), sizes(one))).collect(),
        default_storage_profiles: defaults.map(|(name, _)| name.clone()).collect(),
        persistent: persistent.collect(),
        container_profiles: containers.collect(),
        lustre_roots: global_lustre::roots(view.site),
        ..Known::default()
    }
}

/// Makes the objects of a job's storage that are missing, and fills its breakdown in.
pub fn objects(view: &View<'_>, index: usize, jobdw: &Jobdw) -> Progress {
    let name = of_directive(&view.workflow, index);
    let metadata = || with_directive(owned(&view.workflow, &name), &view.workflow, index);
    let sets = |profile: &StorageProfile| of_jobdw(jobdw, profile);
    let status = |sets: &[AllocationSet]| broken_down(view, index, jobdw, sets);
    missing(view, index, jobdw, &metadata, sets, status)
}

/// Makes the Servers, pinned profile and breakdown of a directive that are missing. Servers and profile get this metadata, and the
/// breakdown this status.
pub(super) fn missing(
    view: &View<'_>,
    index: usize,
    jobdw: &Jobdw,
    metadata: &dyn Fn() -> ObjectMeta,
    sets: impl FnOnce(&StorageProfile) -> Result<Vec<AllocationSet>, BreakdownFault>,
    status: impl FnOnce(&[AllocationSet]) -> DirectiveBreakdownStatus,
) -> Progress {
    let of = &view.directives[index];
    let at = (view.namespace(), metadata().name.unwrap_or_default());
    if let Some(error) = unread_servers(view.site, &at) {
        return Progress::failed(error);
    }
    let Some(profile) = of.storage.profile.clone().or_else(|| template(view, jobdw)) else {
        return Progress::failed(user_error(
            "the site's default NnfStorageProfile went: name one with profile=NAME",
        ));
    };
    let sets = match sets(&sizes(&profile)) {
        Ok(sets) => sets,
        Err(fault) => return Progress::failed(user_error(fault.to_string())),
    };
    let pinned = pinned(&profile, metadata());
    let pinned = of.storage.profile.is_none().then(|| Change::create(&pinned));
    let breakdown = breakdown(view, index, || status(&sets));
    let changes = pinned.into_iter().chain(servers(&of.storage, metadata)).chain(breakdown);
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

/// A copy that stays as it is while storage is made by it.
fn pinned(template: &NnfStorageProfile, metadata: ObjectMeta) -> NnfStorageProfile {
    let mut data = template.data().clone();
    (data.pinned, data.default) = (true, false);
    NnfStorageProfile { metadata, spec: NnfStorageProfileBody { data: data.into() } }
}

/// What is to be done about a Servers that is there and cannot be read.
pub(super) fn unread_servers(site: &Site, at: &ObjectKey) -> Option<ResourceError> {
    let (namespace, name) = site.unread_servers.get(at)?;
    Some(transient_error(format!(
        "Servers {namespace}/{name} cannot be read: correct it, and this goes on"
    )))
}

/// The wait for a Servers that was filled in once and is not there any more, or cannot be read.
pub(super) fn without_servers(site: &Site, at: &ObjectKey) -> Progress {
    let error = unread_servers(site, at);
    error.map_or_else(|| Progress::wait("its Servers, which is gone"), Progress::failed)
}

/// A Servers to fill in. One that somebody deleted holds its name until nothing is left of its storage, and is then made anew.
fn servers(storage: &Group, metadata: impl FnOnce() -> ObjectMeta) -> Option<Change> {
    match &storage.servers {
        None => {
            let finalizers = Some(vec![SERVERS_FINALIZER.to_owned()]);
            let metadata = ObjectMeta { finalizers, ..metadata() };
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

/// A breakdown that is missing, or what one is to say that says nothing yet.
pub(super) fn breakdown(
    view: &View<'_>,
    index: usize,
    status: impl FnOnce() -> DirectiveBreakdownStatus,
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
    after.status = Some(DirectiveBreakdownStatus { ready: true, ..status() });
    Change::status(&**known, &after)
}

/// What storage for a job needs, and where its computes have to be.
fn broken_down(
    view: &View<'_>,
    index: usize,
    jobdw: &Jobdw,
    sets: &[AllocationSet],
) -> DirectiveBreakdownStatus {
    let (name, namespace) = (of_directive(&view.workflow, index), view.namespace());
    let location = sets.iter().enumerate().map(|(place, set)| {
        location(place, access(set.label, set.colocate_computes), &name, &namespace)
    });
    DirectiveBreakdownStatus {
        storage: Some(storage(StorageLifetime::Job, &name, &namespace, sets)),
        compute: Some(ComputeBreakdown {
            constraints: ComputeConstraints { location: location.collect() },
        }),
        requires: jobdw.requires.clone(),
        ..DirectiveBreakdownStatus::default()
    }
}

/// The allocations to be placed, and the Servers to name them in.
pub(super) fn storage(
    lifetime: StorageLifetime,
    servers: &str,
    namespace: &str,
    sets: &[AllocationSet],
) -> StorageBreakdown {
    StorageBreakdown {
        lifetime,
        reference: Some(reference("Servers", servers, namespace)),
        allocation_sets: sets.iter().map(set).collect(),
    }
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

/// How computes have to reach one set of a Servers.
pub(super) fn location(
    place: usize,
    ways: Vec<Access>,
    servers: &str,
    namespace: &str,
) -> ComputeLocationConstraint {
    let ways = ways.into_iter().map(|access| ComputeLocationAccess {
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
    let name = variable("DW_JOB_", name);
    let kind = format!("DW_JOB_{}", file_system.as_str().to_uppercase());
    BTreeMap::from([(name, path.to_owned()), (kind, path.to_owned())])
}

/// The variable that is named after a storage.
pub fn variable(prefix: &str, name: &str) -> String {
    format!("{prefix}{}", name.replace('-', "_"))
}
