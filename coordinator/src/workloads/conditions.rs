//! Determines the condition of each node of a job, with its evidence. Pure.
//!
//! A node counts as Faulty or Down only if the node itself, its rabbit or the workload manager has reported a fault.
//! The loss of the connection to its agent is no evidence of a fault: the node then counts as Unreachable.

use std::collections::{BTreeMap, BTreeSet};

use api::client_mount::MountState;
use api::names::finalizer;
use api::{
    ClientMount, Computes, NnfNodeBlockStorage, NnfNodeStorage, RabbitLabels, ResourceError,
    Servers, Workflow, WorkflowState,
};
use directive::Command;
use kube::ResourceExt;
use proto::v1::node_condition::Condition;
use proto::v1::{NodeCondition, Role};
use workflow::objects::site::Site;
use workload::Objects;

use super::tolerance;

/// Facts that the job's own objects do not show.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The rabbit of each compute, the state of the rabbits' links, and the workload manager's SystemStatus.
    pub site: Site,
    pub connected: BTreeSet<String>,
    /// The reason why a disconnected node cannot connect, by node.
    pub shut_out: BTreeMap<String, String>,
    pub rabbits: BTreeSet<String>,
}

/// The parts of the job's objects that are about one node.
#[derive(Debug, Default)]
struct NodeReport {
    /// Reasons why an object has not reached its desired state yet.
    pending: Vec<String>,
    faults: Vec<String>,
    mounted: bool,
    /// Indices of directives with a mount or a file system on the node.
    present: BTreeSet<u32>,
    /// Indices of directives that the node is not ready for.
    open: BTreeSet<u32>,
}

/// Returns the conditions of the job's computes, in the order of the job's Computes, then those of its rabbits.
pub(super) fn conditions(objects: &Objects, facts: &Facts) -> Vec<NodeCondition> {
    let mut reports = reports(objects);
    let mut conditions: Vec<NodeCondition> = Vec::new();
    for compute in computes(objects) {
        let report = reports.remove(&compute).unwrap_or_default();
        conditions.push(report.condition(compute, facts));
    }
    conditions.extend(reports.into_iter().map(|(node, report)| report.condition(node, facts)));
    conditions
}

/// Returns the nodes that are not ready for a directive, by the directive's index.
pub(super) fn unready_nodes(objects: &Objects) -> BTreeMap<u32, BTreeSet<String>> {
    let mut open: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for (node, report) in reports(objects) {
        for directive in report.open {
            open.entry(directive).or_default().insert(node.clone());
        }
    }
    open
}

fn computes(objects: &Objects) -> Vec<String> {
    let lists = objects.of_kind::<Computes>("Computes");
    lists.flat_map(|computes| computes.names().map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn reports(objects: &Objects) -> BTreeMap<String, NodeReport> {
    let mut reports: BTreeMap<String, NodeReport> = BTreeMap::new();
    for member in &objects.others {
        let Some(node) = member.node() else { continue };
        let report = reports.entry(node).or_default();
        let object = member.object.clone();
        let read = match member.kind.as_str() {
            "ClientMount" => object.try_parse().map(|mount| report.add_mount(&mount)),
            "NnfNodeStorage" => object.try_parse().map(|storage: NnfNodeStorage| {
                let status = storage.status.unwrap_or_default();
                report.add_status(
                    status.ready,
                    status.error.as_ref(),
                    "its file systems are not made",
                )
            }),
            _ => object.try_parse().map(|storage: NnfNodeBlockStorage| {
                let status = storage.status.unwrap_or_default();
                report.add_status(
                    status.ready,
                    status.error.as_ref(),
                    "its namespaces are not made",
                )
            }),
        };
        let is_ready = read.unwrap_or_else(|_| {
            report.mounted = true;
            report.pending.push(format!("{} cannot be read", member.label()));
            false
        });
        if member.kind != "NnfNodeBlockStorage" {
            report.present.extend(member.directive());
        }
        report.open.extend(member.directive().filter(|_| !is_ready));
    }
    if let Some(workflow) = &objects.workflow {
        add_missing(workflow, objects, &mut reports);
    }
    reports
}

/// Adds to `reports` the objects that the job's state needs and that do not exist yet.
fn add_missing(workflow: &Workflow, objects: &Objects, reports: &mut BTreeMap<String, NodeReport>) {
    let state = &workflow.spec.desired_state;
    let (is_made, is_mounted) = match state {
        WorkflowState::Setup => (true, false),
        WorkflowState::PreRun => (true, true),
        _ => return,
    };
    let mut add = |node: String, index: u32, reason: &str| {
        let report = reports.entry(node).or_default();
        if !report.present.contains(&index) {
            report.open.insert(index);
            report.pending.push(reason.to_owned());
        }
    };
    let servers: Vec<Servers> = objects.of_kind::<Servers>("Servers").collect();
    let computes = computes(objects);
    for (index, line) in (0..).zip(&workflow.spec.directives) {
        let command = tolerance::command(line);
        let index_label = index.to_string();
        let servers =
            servers.iter().filter(|servers| servers.directive_index() == Some(&*index_label));
        let sets = servers.flat_map(|servers| &servers.spec.allocation_sets);
        if is_made && matches!(command, Some(Command::Jobdw(_))) {
            for rabbit in sets.flat_map(|set| &set.storage) {
                add(rabbit.name.clone(), index, "its storage is not requested yet");
            }
        }
        if is_mounted && matches!(command, Some(Command::Jobdw(_) | Command::Persistentdw(_))) {
            for compute in &computes {
                add(compute.clone(), index, "it has no ClientMount yet");
            }
        }
    }
}

impl NodeReport {
    /// Adds the status of a mount; returns whether the mount is ready.
    fn add_mount(&mut self, mount: &ClientMount) -> bool {
        let wanted = &mount.spec.desired_state;
        let status = mount.status.as_ref();
        let is_released =
            status.is_some_and(|status| status.says_unmounted(mount.spec.mounts.len()));
        let was_taken_up = mount.finalizers().iter().any(|name| name == finalizer::CLIENT_MOUNT)
            || status.is_some();
        self.mounted |= was_taken_up && !is_released;
        let error = status.and_then(|status| status.error.as_ref());
        let what = if *wanted == MountState::Mounted { "not mounted" } else { "not unmounted" };
        self.add_status(mount.has_reached_desired_state(), error, what)
    }

    /// Adds the status of an object; returns whether the object is ready.
    fn add_status(&mut self, is_there: bool, error: Option<&ResourceError>, what: &str) -> bool {
        match error {
            Some(error) => {
                let text = error.user_message.as_ref().unwrap_or(&error.debug_message);
                self.faults.push(text.clone());
            }
            None if !is_there => self.pending.push(what.to_owned()),
            None => {}
        }
        is_there && error.is_none()
    }

    fn condition(self, node: String, facts: &Facts) -> NodeCondition {
        let is_rabbit = facts.rabbits.contains(&node);
        let down = facts.site.why_down(&node);
        let (condition, evidence) = match (down, self.faults.first(), self.pending.first()) {
            (Some(why), ..) => (Condition::Down, why),
            (None, Some(fault), _) => (Condition::Faulty, fault.clone()),
            (None, None, None) => (Condition::Ready, String::new()),
            (None, None, Some(what)) if facts.connected.contains(&node) => {
                (Condition::Pending, what.clone())
            }
            (None, None, Some(what)) if facts.shut_out.contains_key(&node) => {
                (Condition::Faulty, format!("{what}: {}", facts.shut_out[&node]))
            }
            (None, None, Some(what)) => (
                Condition::Unreachable,
                format!(
                    "{what}, and its agent is not connected, which does not prove that the node is down"
                ),
            ),
        };
        let role = if is_rabbit { Role::Rabbit } else { Role::Compute };
        let mounted = self.mounted;
        NodeCondition { node, role: role.into(), condition: condition.into(), evidence, mounted }
    }
}

#[cfg(test)]
mod tests;
