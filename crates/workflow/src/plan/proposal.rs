//! Proposal: creates the objects that tell the workload manager which storage and computes each directive needs.

use api::{
    Computes, ComputesBody, DirectiveBreakdown, DirectiveBreakdownSpec, DirectiveBreakdownStatus,
    NnfStorageProfile, NnfStorageProfileBody, ResourceError, Servers, ServersSpec, WorkflowState,
    directive_breakdown::{
        AccessPriority, AccessType, AllocationSetColocation, AllocationSetConstraints,
        AllocationStrategy, ColocationType, ComputeBreakdown, ComputeConstraints,
        ComputeLocationAccess, ComputeLocationConstraint, StorageAllocationSet, StorageBreakdown,
        StorageLifetime,
    },
    names::finalizer,
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
    names::{add_directive_labels, directive_object_name, owned_metadata, reference},
    objects::{
        instance,
        site::Site,
        view::{Group, View},
    },
    plan::{global_lustre, teardown::is_held, without_finalizer},
    profile::{to_container_profile, to_storage_profile},
    progress::{Outcome, Progress, transient_error, user_error},
};

/// Creates the Computes of a job, which the workload manager fills.
pub fn create_computes(view: &View<'_>) -> Option<Change> {
    if view.computes.is_some() || view.state() == WorkflowState::Teardown {
        return None;
    }
    let metadata =
        owned_metadata(&view.workflow, &view.workflow.metadata.name.clone().unwrap_or_default());
    Some(Change::create(&Computes { metadata, spec: ComputesBody::default() }))
}

/// Collects the profiles, persistent storage and Lustre mount points that directives may name.
pub fn known_names(view: &View<'_>) -> Known {
    let spec = &view.workflow.spec;
    let id = |id: i64| u32::try_from(id).unwrap_or(u32::MAX);
    let profiles = &view.site.profiles;
    let defaults = profiles.iter().filter(|(_, profile)| profile.data().default);
    let namespace = view.namespace();
    let persistent = view
        .site
        .persistent
        .iter()
        .filter(|((owner_namespace, _), _)| *owner_namespace == namespace);
    let persistent = persistent.filter_map(|((_, name), object)| {
        let file_system = object.spec.fs_type.parse::<FileSystem>().ok()?;
        let known = Persistent {
            file_system,
            user: id(object.spec.user_id),
            is_deleted: instance::is_being_destroyed(object),
            is_public: instance::is_public(object),
        };
        Some((name.clone(), known))
    });
    let containers = view.site.container_profiles.iter();
    let containers =
        containers.map(|(name, profile)| (name.clone(), to_container_profile(profile)));
    let movement_profiles = view.site.movement_profiles.iter().flatten();
    Known {
        user: id(spec.user_id),
        group: id(spec.group_id),
        storage_profiles: profiles
            .iter()
            .map(|(name, profile)| (name.clone(), to_storage_profile(profile)))
            .collect(),
        default_storage_profiles: defaults.map(|(name, _)| name.clone()).collect(),
        persistent: persistent.collect(),
        container_profiles: containers.collect(),
        movement_profiles: movement_profiles.clone().map(|(name, _)| name.clone()).collect(),
        default_movement_profiles: movement_profiles
            .filter(|(_, profile)| profile.data().default)
            .map(|(name, _)| name.clone())
            .collect(),
        lustre_roots: global_lustre::mount_roots(view.site),
        copy_roots: view.site.settings.directories.keys().cloned().collect(),
        ..Known::default()
    }
}

/// Creates the missing objects of a job's storage, and fills in its DirectiveBreakdown.
pub fn create_objects(view: &View<'_>, index: usize, jobdw: &Jobdw) -> Progress {
    let name = directive_object_name(&view.workflow, index);
    let metadata =
        || add_directive_labels(owned_metadata(&view.workflow, &name), &view.workflow, index);
    let sets = |profile: &StorageProfile| of_jobdw(jobdw, profile);
    let status = |sets: &[AllocationSet]| breakdown_status(view, index, jobdw, sets);
    create_missing(view, index, jobdw, &metadata, sets, status)
}

/// Creates the Servers, pinned profile and breakdown of a directive that are missing. `metadata` is for the Servers and
/// the profile, `new_status` for the breakdown.
pub(super) fn create_missing(
    view: &View<'_>,
    index: usize,
    jobdw: &Jobdw,
    metadata: &dyn Fn() -> ObjectMeta,
    sets: impl FnOnce(&StorageProfile) -> Result<Vec<AllocationSet>, BreakdownFault>,
    new_status: impl FnOnce(&[AllocationSet]) -> DirectiveBreakdownStatus,
) -> Progress {
    let directive = &view.directives[index];
    let at = (view.namespace(), metadata().name.unwrap_or_default());
    if let Some(error) = unreadable_servers_error(view.site, &at) {
        return Progress::failed(error);
    }
    let Some(profile) = directive.storage.profile.clone().or_else(|| find_profile(view, jobdw))
    else {
        return Progress::failed(user_error(
            "the site's default NnfStorageProfile no longer exists: name a profile with profile=NAME",
        ));
    };
    let sets = match sets(&to_storage_profile(&profile)) {
        Ok(sets) => sets,
        Err(fault) => return Progress::failed(user_error(fault.to_string())),
    };
    let pinned = pin_profile(&profile, metadata());
    let pinned = directive.storage.profile.is_none().then(|| Change::create(&pinned));
    let breakdown = write_breakdown(view, index, || new_status(&sets));
    let changes =
        pinned.into_iter().chain(create_servers(&directive.storage, metadata)).chain(breakdown);
    let status = directive.breakdown.as_ref().and_then(|breakdown| breakdown.status.as_ref());
    let is_ready = status.is_some_and(|status| status.ready);
    let outcome = if is_ready { Outcome::Done } else { Outcome::Working };
    Progress::from(outcome).with(changes)
}

/// Returns the profile that the directive names, or the site's default.
fn find_profile(view: &View<'_>, jobdw: &Jobdw) -> Option<std::sync::Arc<NnfStorageProfile>> {
    let profiles = &view.site.profiles;
    match &jobdw.profile {
        Some(name) => profiles.get(name).cloned(),
        None => profiles.values().find(|profile| profile.data().default).cloned(),
    }
}

/// Returns a pinned profile: a copy that does not change while storage is made with it.
fn pin_profile(template: &NnfStorageProfile, metadata: ObjectMeta) -> NnfStorageProfile {
    let mut data = template.data().clone();
    (data.pinned, data.default) = (true, false);
    NnfStorageProfile { metadata, spec: NnfStorageProfileBody { data: data.into() } }
}

/// Returns an error if the Servers exists and cannot be read.
pub(super) fn unreadable_servers_error(site: &Site, at: &ObjectKey) -> Option<ResourceError> {
    let (namespace, name) = site.unread_servers.get(at)?;
    Some(transient_error(format!(
        "Servers {namespace}/{name} cannot be read: correct the object; the workflow then continues"
    )))
}

/// Waits until a Servers that was deleted exists again and is filled; fails if the Servers cannot be read.
pub(super) fn wait_for_servers(site: &Site, at: &ObjectKey) -> Progress {
    match unreadable_servers_error(site, at) {
        Some(error) => Progress::failed(error),
        None => Progress::wait(format!("Servers {}/{}, which does not exist", at.0, at.1)),
    }
}

/// Creates the Servers. A deleted Servers keeps its name until its storage is gone; then the finalizer is removed, and
/// the next plan creates the Servers again.
fn create_servers(storage: &Group, metadata: impl FnOnce() -> ObjectMeta) -> Option<Change> {
    match &storage.servers {
        None => {
            let finalizers = Some(vec![finalizer::SERVERS.to_owned()]);
            let metadata = ObjectMeta { finalizers, ..metadata() };
            Some(Change::create(&Servers { metadata, spec: ServersSpec::default(), status: None }))
        }
        Some(servers)
            if servers.metadata.deletion_timestamp.is_some()
                && storage.is_gone()
                && is_held(storage) =>
        {
            without_finalizer(&**servers, finalizer::SERVERS)
        }
        Some(_) => None,
    }
}

/// Creates a missing breakdown, or writes the status of a breakdown that is not ready.
pub(super) fn write_breakdown(
    view: &View<'_>,
    index: usize,
    status: impl FnOnce() -> DirectiveBreakdownStatus,
) -> Option<Change> {
    let Some(known) = &view.directives[index].breakdown else {
        let metadata =
            owned_metadata(&view.workflow, &directive_object_name(&view.workflow, index));
        return Some(Change::create(&DirectiveBreakdown {
            metadata: add_directive_labels(metadata, &view.workflow, index),
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

/// Returns the breakdown status for storage of a job: its allocation sets, and where its computes have to be.
fn breakdown_status(
    view: &View<'_>,
    index: usize,
    jobdw: &Jobdw,
    sets: &[AllocationSet],
) -> DirectiveBreakdownStatus {
    let (name, namespace) = (directive_object_name(&view.workflow, index), view.namespace());
    let location = sets.iter().enumerate().map(|(place, set)| {
        compute_location(place, access(set.label, set.colocate_computes), &name, &namespace)
    });
    DirectiveBreakdownStatus {
        storage: Some(storage_breakdown(StorageLifetime::Job, &name, &namespace, sets)),
        compute: Some(ComputeBreakdown {
            constraints: ComputeConstraints { location: location.collect() },
        }),
        requires: jobdw.requires.clone(),
        ..DirectiveBreakdownStatus::default()
    }
}

/// Returns the allocation sets to be placed, and the Servers to write the placement into.
pub(super) fn storage_breakdown(
    lifetime: StorageLifetime,
    servers: &str,
    namespace: &str,
    sets: &[AllocationSet],
) -> StorageBreakdown {
    StorageBreakdown {
        lifetime,
        reference: Some(reference("Servers", servers, namespace)),
        allocation_sets: sets.iter().map(to_breakdown_set).collect(),
    }
}

fn to_breakdown_set(set: &AllocationSet) -> StorageAllocationSet {
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

/// Returns how computes have to reach one allocation set of a Servers.
pub(super) fn compute_location(
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
