//! Ports of the rabbits of a run: taken before its containers are made, and given back after the last of them.

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
    names::reference,
    progress::{Outcome, Progress, user_error},
    site::Site,
    view::View,
};

/// The ports of a run, and how far it has them.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) ports: Vec<u16>,
    pub(super) progress: Progress,
}

/// Takes ports on all rabbits of a run.
pub(super) fn taken(view: &View<'_>, parts: &Parts<'_>, now: Timestamp) -> Taken {
    if parts.ports() == 0 {
        return Taken::default();
    }
    let chosen = match chosen(view, parts, now) {
        Ok(chosen) => chosen,
        Err(outcome) => return Taken { progress: outcome.into(), ..Taken::default() },
    };
    let requester = requester(view);
    let is_free = |one: &NnfPortManagerAllocation| is_free(view.site, one, now);
    let record = |rabbit: &str| -> Option<Change> {
        let Some(record) = view.site.ports.get(rabbit) else {
            return Some(Change::create(&new(rabbit)));
        };
        let now = allocations(record);
        let has = now.iter().find(|one| ports::is_of(one, &requester)).map(ports::numbers);
        let after = || ports::with(now, &requester, &chosen, is_free);
        if has.as_ref() == Some(&chosen) { None } else { recorded(record, after()) }
    };
    let rabbits = parts.placement.iter().map(|rabbit| rabbit.name.as_str());
    let progress = Progress::default().with(rabbits.filter_map(record));
    Taken { progress, ports: chosen }
}

/// The ports that a run has on all of its rabbits.
pub(super) fn of(view: &View<'_>, parts: &Parts<'_>) -> Option<Vec<u16>> {
    if parts.ports() == 0 {
        return Some(Vec::new());
    }
    let requester = requester(view);
    let mut each = parts.placement.iter().map(|rabbit| {
        let record = allocations(view.site.ports.get(&rabbit.name)?).iter();
        record.clone().find(|one| ports::is_of(one, &requester)).map(ports::numbers)
    });
    let first = each.next()??;
    each.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// Gives back what the workflow has on any rabbit.
pub(super) fn returned(view: &View<'_>, now: Timestamp) -> Vec<Change> {
    let requester = requester(view);
    let records = view.site.ports.values();
    let mine = records
        .filter(|record| allocations(record).iter().any(|one| ports::is_of(one, &requester)));
    let without = |record: &NnfPortManager| {
        ports::without(allocations(record), &requester, cooldown(view.site), now)
    };
    mine.filter_map(|record| recorded(record, without(record))).collect()
}

/// Whether a workflow waits for ports that are free again in a while: nobody tells when.
#[must_use]
pub fn is_cooling(view: &View<'_>, now: Timestamp) -> bool {
    if view.state() != WorkflowState::PreRun || view.site.settings.containers.is_none() {
        return false;
    }
    let lines = view.workflow.spec.directives.iter().enumerate();
    let mut parts =
        lines.filter_map(|(index, line)| Parts::of(view, index, &super::command(line)?).ok());
    let is_cooling = |one: &NnfPortManagerAllocation| {
        one.status == NnfPortManagerAllocationStatus::Cooldown && !is_free(view.site, one, now)
    };
    parts.any(|parts| {
        let mut rabbits = parts.placement.iter().filter_map(|one| view.site.ports.get(&one.name));
        let is_short = parts.ports() > 0 && chosen(view, &parts, now).is_err();
        is_short && rabbits.any(|record| allocations(record).iter().any(is_cooling))
    })
}

fn chosen(view: &View<'_>, parts: &Parts<'_>, now: Timestamp) -> Result<Vec<u16>, Outcome> {
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
    let is_free = |one: &NnfPortManagerAllocation| is_free(view.site, one, now);
    let listed = ports::listed(&system).map_err(error)?;
    ports::choose(&listed, &records, &requester(view), parts.ports(), is_free).map_err(error)
}

fn is_free(site: &Site, entry: &NnfPortManagerAllocation, now: Timestamp) -> bool {
    let is_alive = |of: &ObjectReference| of.uid.as_ref().is_some_and(|uid| site.has_workflow(uid));
    ports::is_free(entry, cooldown(site), now, is_alive)
}

fn cooldown(site: &Site) -> SignedDuration {
    let seconds = site.system.as_ref().map_or(0, |one| one.spec.ports_cooldown_in_seconds);
    SignedDuration::from_secs(seconds)
}

fn requester(view: &View<'_>) -> ObjectReference {
    let of = reference("Workflow", &view.workflow.name_any(), &view.namespace());
    ObjectReference { uid: view.workflow.uid(), ..of }
}

fn allocations(record: &NnfPortManager) -> &[NnfPortManagerAllocation] {
    record.status.as_ref().map_or(&[], |status| &status.allocations)
}

fn new(rabbit: &str) -> NnfPortManager {
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

fn recorded(record: &NnfPortManager, allocations: Vec<NnfPortManagerAllocation>) -> Option<Change> {
    let mut after = record.clone();
    after.status = Some(NnfPortManagerStatus { allocations, status: NnfPortManagerState::Ready });
    Change::status(record, &after)
}
