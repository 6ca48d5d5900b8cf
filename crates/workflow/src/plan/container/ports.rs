//! Allocates ports on the rabbits of a run before the run's containers are created, and releases the ports after the
//! last container is gone.

use api::{
    NnfPortManager, NnfPortManagerSpec, NnfPortManagerStatus, WorkflowState,
    names::{NNF_PORT_MANAGER, STORAGE_NAMESPACE, SYSTEM_CONFIGURATION},
    nnf_port_manager::{
        NnfPortManagerAllocation, NnfPortManagerAllocationStatus, NnfPortManagerState,
    },
};
use containers::ports::{self, PortFault, Records};
use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::{SignedDuration, Timestamp},
};
use kube::ResourceExt;

use super::run::Parts;
use crate::{
    change::Change,
    names::{is_copy, reference},
    objects::{site::Site, view::View},
    plan::copies,
    progress::{Outcome, Progress, user_error},
};

/// The ports of a run, and the progress of recording them.
#[derive(Debug, Default)]
pub(super) struct TakenPorts {
    pub(super) ports: Vec<u16>,
    pub(super) progress: Progress,
}

/// Allocates ports on all rabbits of a run.
pub(super) fn take(view: &View<'_>, parts: &Parts<'_>, now: Timestamp) -> TakenPorts {
    if parts.ports() == 0 {
        return TakenPorts::default();
    }
    let chosen = match choose(view, parts, now) {
        Ok(ports) => ports,
        Err(outcome) => return TakenPorts { progress: outcome.into(), ..TakenPorts::default() },
    };
    let requester = requester(view, parts.index);
    let is_free = |allocation: &NnfPortManagerAllocation| is_free(view.site, allocation, now);
    let record = |rabbit: &str| -> Option<Change> {
        let Some(record) = view.site.ports.get(rabbit) else {
            return Some(Change::create(&new_record(rabbit)));
        };
        let now = allocations(record);
        let has =
            now.iter().find(|allocation| ports::is_of(allocation, &requester)).map(ports::numbers);
        let after = || ports::assign(now, &requester, &chosen, is_free);
        if has.as_ref() == Some(&chosen) { None } else { write_record(record, after()) }
    };
    let rabbits = parts.placement.iter().map(|rabbit| rabbit.name.as_str());
    let progress = Progress::default().with(rabbits.filter_map(record));
    TakenPorts { progress, ports: chosen }
}

/// Returns the ports that a run has on all of its rabbits; `None` while any two rabbits have different ports.
pub(super) fn ports_of(view: &View<'_>, parts: &Parts<'_>) -> Option<Vec<u16>> {
    if parts.ports() == 0 {
        return Some(Vec::new());
    }
    let requester = requester(view, parts.index);
    let mut each = parts.placement.iter().map(|rabbit| {
        let record = allocations(view.site.ports.get(&rabbit.name)?).iter();
        record.clone().find(|allocation| ports::is_of(allocation, &requester)).map(ports::numbers)
    });
    let first = each.next()??;
    each.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// Releases the ports of a directive's containers on all rabbits.
pub(super) fn release(view: &View<'_>, index: usize, now: Timestamp) -> Vec<Change> {
    let requester = requester(view, index);
    let records = view.site.ports.values();
    let own_records = records.filter(|record| {
        allocations(record).iter().any(|allocation| ports::is_of(allocation, &requester))
    });
    let without = |record: &NnfPortManager| {
        ports::release(allocations(record), &requester, cooldown(view.site), now)
    };
    own_records.filter_map(|record| write_record(record, without(record))).collect()
}

/// Returns true if a workflow waits for ports in their cooldown: they were released a short time ago and may not be
/// used yet. No watch reports the end of a cooldown.
#[must_use]
pub fn is_cooling(view: &View<'_>, now: Timestamp) -> bool {
    if view.site.settings.containers.is_none() {
        return false;
    }
    let copies = copies::unfinished_runs(view);
    let copies = copies.iter().filter_map(|(index, run)| Parts::of_copy(view, *index, run).ok());
    let lines = view.workflow.spec.directives.iter().enumerate();
    let lines = lines.filter(|_| view.state() == WorkflowState::PreRun);
    let containers = lines
        .filter_map(|(index, line)| Parts::new(view, index, &super::parse_container(line)?).ok());
    let mut parts = copies.chain(containers);
    let is_cooling = |allocation: &NnfPortManagerAllocation| {
        allocation.status == NnfPortManagerAllocationStatus::Cooldown
            && !is_free(view.site, allocation, now)
    };
    parts.any(|parts| {
        let mut rabbits =
            parts.placement.iter().filter_map(|rabbit| view.site.ports.get(&rabbit.name));
        let is_short = parts.ports() > 0 && choose(view, &parts, now).is_err();
        is_short && rabbits.any(|record| allocations(record).iter().any(is_cooling))
    })
}

fn choose(view: &View<'_>, parts: &Parts<'_>, now: Timestamp) -> Result<Vec<u16>, Outcome> {
    let system = view.site.system.as_ref().map(|system| system.spec.clone()).unwrap_or_default();
    let error = |fault: PortFault| match fault {
        PortFault::Taken { .. } => Outcome::Queued(fault.to_string()),
        PortFault::Unreadable(_) | PortFault::TooFew { .. } => {
            Outcome::Failed(user_error(fault.to_string()))
        }
    };
    let records: Records<'_> = parts
        .placement
        .iter()
        .filter_map(|rabbit| {
            Some((rabbit.name.as_str(), allocations(view.site.ports.get(&rabbit.name)?)))
        })
        .collect();
    let is_free = |allocation: &NnfPortManagerAllocation| is_free(view.site, allocation, now);
    let listed = ports::site_ports(&system).map_err(error)?;
    ports::choose(&listed, &records, &requester(view, parts.index), parts.ports(), is_free)
        .map_err(error)
}

fn is_free(site: &Site, entry: &NnfPortManagerAllocation, now: Timestamp) -> bool {
    let is_alive =
        |owner: &ObjectReference| owner.uid.as_ref().is_some_and(|uid| site.has_workflow(uid));
    ports::is_free(entry, cooldown(site), now, is_alive)
}

fn cooldown(site: &Site) -> SignedDuration {
    let seconds = site.system.as_ref().map_or(0, |system| system.spec.ports_cooldown_in_seconds);
    SignedDuration::from_secs(seconds)
}

/// Returns the entry's owner in the record: the workflow or, for a copy by MPI, the copy's directive in the workflow.
fn requester(view: &View<'_>, index: usize) -> ObjectReference {
    let workflow = reference("Workflow", &view.workflow.name_any(), &view.namespace());
    let field = is_copy(&view.workflow, index).then(|| format!("spec.dwDirectives[{index}]"));
    ObjectReference { uid: view.workflow.uid(), field_path: field, ..workflow }
}

fn allocations(record: &NnfPortManager) -> &[NnfPortManagerAllocation] {
    record.status.as_ref().map_or(&[], |status| &status.allocations)
}

fn new_record(rabbit: &str) -> NnfPortManager {
    let system = reference("SystemConfiguration", SYSTEM_CONFIGURATION, STORAGE_NAMESPACE);
    NnfPortManager {
        metadata: ObjectMeta {
            name: Some(NNF_PORT_MANAGER.to_owned()),
            namespace: Some(rabbit.to_owned()),
            ..ObjectMeta::default()
        },
        spec: NnfPortManagerSpec { system_configuration: system, allocations: Vec::new() },
        status: None,
    }
}

fn write_record(
    record: &NnfPortManager,
    allocations: Vec<NnfPortManagerAllocation>,
) -> Option<Change> {
    let mut after = record.clone();
    after.status = Some(NnfPortManagerStatus { allocations, status: NnfPortManagerState::Ready });
    Change::status(record, &after)
}
