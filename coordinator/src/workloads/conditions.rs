//! The condition of each node of a job, and the evidence for it. Pure.
//!
//! A node is called faulty or down on its own report, its rabbit's or the workload manager's. Silence of its agent is no
//! evidence: such a node is Unreachable, neither Ready nor Down.

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
use workflow::site::Site;
use workload::Objects;

use super::tolerance;

/// What the coordinator knows beside the job's own objects.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Which rabbit serves whom, how the rabbits' links are, and what the workload manager says.
    pub site: Site,
    pub connected: BTreeSet<String>,
    /// Of nodes that are not connected, why they cannot connect.
    pub shut_out: BTreeMap<String, String>,
    pub rabbits: BTreeSet<String>,
}

/// What the job's objects say of one node.
#[derive(Debug, Default)]
struct NodeReport {
    /// Objects that are not as they should be.
    pending: Vec<String>,
    faults: Vec<String>,
    mounted: bool,
    /// Directives that have a mount or a file system there.
    has: BTreeSet<u32>,
    /// Directives for which it is not ready.
    open: BTreeSet<u32>,
}

/// The job's computes in its order, then its rabbits.
pub(super) fn conditions(objects: &Objects, facts: &Facts) -> Vec<NodeCondition> {
    let mut reports = reports(objects);
    let mut conditions: Vec<NodeCondition> = Vec::new();
    for compute in computes(objects) {
        let one = reports.remove(&compute).unwrap_or_default();
        conditions.push(one.condition(compute, facts));
    }
    conditions.extend(reports.into_iter().map(|(node, one)| one.condition(node, facts)));
    conditions
}

/// By directive, the nodes that are not ready for it.
pub(super) fn open(objects: &Objects) -> BTreeMap<u32, BTreeSet<String>> {
    let mut open: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for (node, one) in reports(objects) {
        for directive in one.open {
            open.entry(directive).or_default().insert(node.clone());
        }
    }
    open
}

fn computes(objects: &Objects) -> Vec<String> {
    let all = objects.of::<Computes>("Computes");
    all.flat_map(|computes| computes.names().map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn reports(objects: &Objects) -> BTreeMap<String, NodeReport> {
    let mut reports: BTreeMap<String, NodeReport> = BTreeMap::new();
    for member in &objects.others {
        let Some(node) = member.node() else { continue };
        let one = reports.entry(node).or_default();
        let object = member.object.clone();
        let read = match member.kind.as_str() {
            "ClientMount" => object.try_parse().map(|mount| one.mount(&mount)),
            "NnfNodeStorage" => object.try_parse().map(|storage: NnfNodeStorage| {
                let status = storage.status.unwrap_or_default();
                one.note(status.ready, status.error.as_ref(), "its file systems are not made")
            }),
            _ => object.try_parse().map(|storage: NnfNodeBlockStorage| {
                let status = storage.status.unwrap_or_default();
                one.note(status.ready, status.error.as_ref(), "its namespaces are not made")
            }),
        };
        let is_ready = read.unwrap_or_else(|_| {
            one.mounted = true;
            one.pending.push(format!("{} cannot be read", member.label()));
            false
        });
        if member.kind != "NnfNodeBlockStorage" {
            one.has.extend(member.directive());
        }
        one.open.extend(member.directive().filter(|_| !is_ready));
    }
    if let Some(workflow) = &objects.workflow {
        missing(workflow, objects, &mut reports);
    }
    reports
}

/// The objects that the job's state needs and that are not ready yet.
fn missing(workflow: &Workflow, objects: &Objects, reports: &mut BTreeMap<String, NodeReport>) {
    let state = &workflow.spec.desired_state;
    let (is_made, is_mounted) = match state {
        WorkflowState::Setup => (true, false),
        WorkflowState::PreRun => (true, true),
        _ => return,
    };
    let mut lacks = |node: String, index: u32, what: &str| {
        let one = reports.entry(node).or_default();
        if !one.has.contains(&index) {
            one.open.insert(index);
            one.pending.push(what.to_owned());
        }
    };
    let servers: Vec<Servers> = objects.of::<Servers>("Servers").collect();
    let computes = computes(objects);
    for (index, line) in (0..).zip(&workflow.spec.directives) {
        let command = tolerance::command(line);
        let of = servers.iter().filter(|one| one.directive_index() == Some(&*index.to_string()));
        let sets = of.flat_map(|one| &one.spec.allocation_sets);
        if is_made && matches!(command, Some(Command::Jobdw(_))) {
            for rabbit in sets.flat_map(|set| &set.storage) {
                lacks(rabbit.name.clone(), index, "its storage is not asked for yet");
            }
        }
        if is_mounted && matches!(command, Some(Command::Jobdw(_) | Command::Persistentdw(_))) {
            for compute in &computes {
                lacks(compute.clone(), index, "it has no ClientMount yet");
            }
        }
    }
}

impl NodeReport {
    fn mount(&mut self, mount: &ClientMount) -> bool {
        let wanted = &mount.spec.desired_state;
        let status = mount.status.as_ref();
        let is_released =
            status.is_some_and(|status| status.says_unmounted(mount.spec.mounts.len()));
        let was_taken_up =
            mount.finalizers().iter().any(|one| one == finalizer::CLIENT_MOUNT) || status.is_some();
        self.mounted |= was_taken_up && !is_released;
        let error = status.and_then(|status| status.error.as_ref());
        let what = if *wanted == MountState::Mounted { "not mounted" } else { "not unmounted" };
        self.note(mount.has_reached_desired_state(), error, what)
    }

    /// Takes in the status of an object; returns whether the object is ready.
    fn note(&mut self, is_there: bool, error: Option<&ResourceError>, what: &str) -> bool {
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
                    "{what}, and its agent is not connected; that is no evidence that it is down"
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
