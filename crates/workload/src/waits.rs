//! Lists the reasons why a workflow waits: object, node, time, reason and remedy. Pure: the time is an argument.

use api::client_mount::MountState;
use api::workflow::DriverStatus;
use api::{
    ClientMount, Computes, DirectiveBreakdown, NnfNodeBlockStorage, NnfNodeStorage, RabbitLabels,
    ResourceError, Servers, Workflow, WorkflowState,
};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde::Serialize;

use crate::gather::Objects;

/// A reason why a workflow waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The object that is not ready, as `kind/name`.
    pub object: String,
    /// The node that has to act.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directive: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    pub why: String,
    pub remedy: String,
}

const AGENT: &str = "check that its agent runs, and see the agent's log";

/// Returns all reasons why the workflow has not reached its desired state, or why it still exists after its deletion
/// was requested. Causes come before effects.
#[must_use]
pub fn waits(objects: &Objects) -> Vec<Waiting> {
    let mut waits = Vec::new();
    if let Some(workflow) = &objects.workflow {
        waits.extend(missing_places(workflow, objects));
    }
    waits.extend(
        objects
            .of_kind::<DirectiveBreakdown>("DirectiveBreakdown")
            .filter_map(|object| breakdown(&object)),
    );
    waits.extend(
        objects
            .of_kind::<NnfNodeBlockStorage>("NnfNodeBlockStorage")
            .filter_map(|object| blocks(&object)),
    );
    waits.extend(
        objects
            .of_kind::<NnfNodeStorage>("NnfNodeStorage")
            .filter_map(|object| file_systems(&object)),
    );
    waits
        .extend(objects.of_kind::<ClientMount>("ClientMount").filter_map(|object| mounts(&object)));
    if let Some(workflow) = &objects.workflow {
        waits.extend(drivers(workflow));
    }
    waits.extend(held_deletions(objects));
    waits
}

/// Returns a wait for each driver (entry of `status.drivers`: a directive's share of a state) that is not complete.
fn drivers(workflow: &Workflow) -> Vec<Waiting> {
    let Some(status) = workflow.status.as_ref().filter(|status| !status.ready) else {
        return Vec::new();
    };
    let since = status.desired_state_change.map(|moment| moment.0);
    let waiting = |directive, why: String, remedy: &str| Waiting {
        object: label(workflow, "workflow"),
        node: None,
        directive,
        since,
        why,
        remedy: remedy.to_owned(),
    };
    let state = status.state.clone().unwrap_or_default();
    let open =
        status.drivers.iter().filter(|driver| driver.watch_state == state && !driver.completed);
    let mut waits: Vec<_> = open
        .map(|driver| {
            let is_error = driver.status == DriverStatus::Error;
            let text = [&driver.error, &driver.message].into_iter().find(|text| !text.is_empty());
            let text = text.map(|text| format!(": {text}")).unwrap_or_default();
            let remedy = if is_error {
                "the workflow cannot continue: tear it down; the cause is above, or in the coordinator's log"
            } else {
                "the cause is above, or in the coordinator's log"
            };
            let why = format!("{state} of driver {} is {}{text}", driver.driver_id, driver.status);
            waiting(u32::try_from(driver.dwd_index).ok(), why, remedy)
        })
        .collect();
    if waits.is_empty() {
        let text =
            if status.message.is_empty() { String::new() } else { format!(": {}", status.message) };
        waits.push(waiting(
            None,
            format!("{state} is not ready{text}"),
            "check that a workflow engine runs: the coordinator's option --workflows",
        ));
    }
    waits
}

/// Returns a wait for each Servers that names no rabbit, and for a Computes that names no compute.
fn missing_places(workflow: &Workflow, objects: &Objects) -> Vec<Waiting> {
    let status = workflow.status.as_ref();
    let is_waiting = status.is_some_and(|status| !status.ready);
    let state = status.and_then(|status| status.state.clone()).unwrap_or_default();
    let since = status.and_then(|status| status.desired_state_change).map(|moment| moment.0);
    let mut waits = Vec::new();
    if is_waiting && state == WorkflowState::Setup {
        let empty = objects
            .of_kind::<Servers>("Servers")
            .filter(|servers| servers.spec.allocation_sets.is_empty());
        waits.extend(empty.map(|servers| Waiting {
            object: label(&servers, "servers"),
            node: None,
            directive: directive(&servers),
            since,
            why: "no rabbit is named for its allocations".to_owned(),
            remedy: "the workload manager is to fill spec.allocationSets".to_owned(),
        }));
    }
    if is_waiting && state == WorkflowState::PreRun {
        let empty = objects
            .of_kind::<Computes>("Computes")
            .filter(|computes| computes.names().next().is_none());
        waits.extend(empty.map(|computes| Waiting {
            object: label(&computes, "computes"),
            node: None,
            directive: None,
            since,
            why: "no compute is named".to_owned(),
            remedy: "the workload manager is to fill data".to_owned(),
        }));
    }
    waits
}

fn breakdown(object: &DirectiveBreakdown) -> Option<Waiting> {
    let status = object.status.as_ref();
    if status.is_some_and(|status| status.ready && status.error.is_none()) {
        return None;
    }
    let (why, remedy) = reason(
        status.and_then(|status| status.error.as_ref()),
        "not broken down yet",
        "check that a workflow engine runs",
    );
    Some(waiting_for(object, "directivebreakdown", None, why, &remedy))
}

fn blocks(object: &NnfNodeBlockStorage) -> Option<Waiting> {
    let status = object.status.as_ref();
    let error = status.and_then(|status| status.error.as_ref());
    let is_ready = status.is_some_and(|status| status.ready);
    on_node(
        object,
        "nnfnodeblockstorage",
        is_ready,
        error,
        "its namespaces are not made or attached",
    )
}

fn file_systems(object: &NnfNodeStorage) -> Option<Waiting> {
    let status = object.status.as_ref();
    let error = status.and_then(|status| status.error.as_ref());
    let is_ready = status.is_some_and(|status| status.ready);
    on_node(object, "nnfnodestorage", is_ready, error, "its file systems are not made")
}

fn mounts(object: &ClientMount) -> Option<Waiting> {
    let wanted = &object.spec.desired_state;
    let status = object.status.as_ref();
    let error = status.and_then(|status| status.error.as_ref());
    let why = if *wanted == MountState::Mounted { "not mounted" } else { "not unmounted" };
    on_node(object, "clientmount", object.has_reached_desired_state(), error, why)
}

/// Returns the wait for an object in a node's namespace, which the agent of that node works on.
fn on_node<K: Resource<DynamicType = ()>>(
    object: &K,
    kind: &str,
    is_ready: bool,
    error: Option<&ResourceError>,
    pending: &str,
) -> Option<Waiting> {
    if is_ready && error.is_none() {
        return None;
    }
    let is_taken_up = !object.finalizers().is_empty();
    let pending = if is_taken_up { pending } else { "the node's agent has not taken it up" };
    let (why, remedy) = reason(error, pending, AGENT);
    Some(waiting_for(object, kind, object.namespace(), why, &remedy))
}

/// Returns the object's error with its remedy, else `pending` and `remedy`.
fn reason(error: Option<&ResourceError>, pending: &str, remedy: &str) -> (String, String) {
    let Some(error) = error else { return (pending.to_owned(), remedy.to_owned()) };
    let advice = error.user_message.clone().filter(|text| !text.is_empty());
    (
        format!("{}: {}", error.severity, error.debug_message),
        advice.unwrap_or_else(|| remedy.to_owned()),
    )
}

/// Returns a wait for each object that is being deleted, with the finalizers that hold the object.
fn held_deletions(objects: &Objects) -> Vec<Waiting> {
    let held =
        objects.others.iter().filter(|member| member.object.metadata.deletion_timestamp.is_some());
    held.map(|member| Waiting {
        object: member.label(),
        node: member.node(),
        directive: member.directive(),
        since: member.object.metadata.deletion_timestamp.as_ref().map(|moment| moment.0),
        why: format!("being deleted, and held by {}", member.object.finalizers().join(", ")),
        remedy: if member.node().is_some() {
            AGENT.to_owned()
        } else {
            "see the coordinator's log".to_owned()
        },
    })
    .collect()
}

fn waiting_for<K: Resource<DynamicType = ()>>(
    object: &K,
    kind: &str,
    node: Option<String>,
    why: String,
    remedy: &str,
) -> Waiting {
    Waiting {
        object: label(object, kind),
        node,
        directive: directive(object),
        since: object.creation_timestamp().map(|moment| moment.0),
        why,
        remedy: remedy.to_owned(),
    }
}

fn label<K: Resource>(object: &K, kind: &str) -> String {
    format!("{kind}/{}", object.name_any())
}

fn directive<K: Resource>(object: &K) -> Option<u32> {
    object.directive_index().and_then(|index| index.parse().ok())
}

impl Waiting {
    /// Formats the reason as a line.
    #[must_use]
    pub fn line(&self, now: Timestamp) -> String {
        let node = self.node.as_ref().map(|node| format!("{node}: ")).unwrap_or_default();
        let directive =
            self.directive.map(|index| format!(" (directive {index})")).unwrap_or_default();
        let since = self.since.map(|since| format!(" for {}", age(since, now))).unwrap_or_default();
        format!("{node}{}{directive}{since}: {}; {}", self.object, self.why, self.remedy)
    }
}

/// Formats the time since `since`, in whole seconds.
#[must_use]
pub fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = u64::try_from(now.as_second() - since.as_second()).unwrap_or_default();
    humantime::format_duration(std::time::Duration::from_secs(seconds)).to_string()
}

#[cfg(test)]
mod tests;
