//! What is known of the nodes of a job, and how it is known. Pure.
//!
//! A node is called faulty or down on its own report, its rabbit's or the workload manager's. That nothing was heard of it is no
//! evidence: it is neither fine nor gone.

use std::collections::{BTreeMap, BTreeSet};

use api::client_mount::MountState;
use api::names::finalizer;
use api::{
    ClientMount, Computes, NnfNodeBlockStorage, NnfNodeStorage, ResourceError, WorkflowState,
};
use kube::ResourceExt;
use proto::v1::node_condition::Condition;
use proto::v1::{NodeCondition, Role};
use workflow::site::Site;
use workload::Objects;

/// What is known beside the job's own objects.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Which rabbit serves whom, how the rabbits' links are, and what the workload manager says.
    pub site: Site,
    pub connected: BTreeSet<String>,
    pub rabbits: BTreeSet<String>,
}

/// What the objects of a job say of one node.
#[derive(Debug, Default)]
struct Said {
    /// Objects that are not as they should be.
    pending: Vec<String>,
    faults: Vec<String>,
    mounted: bool,
}

/// The job's computes in its order, then its rabbits.
pub(super) fn conditions(objects: &Objects, facts: &Facts) -> Vec<NodeCondition> {
    let mut said: BTreeMap<String, Said> = BTreeMap::new();
    for member in &objects.others {
        let Some(node) = member.node() else { continue };
        let one = said.entry(node).or_default();
        let object = member.object.clone();
        let read = match member.kind.as_str() {
            "ClientMount" => object.try_parse().map(|mount| one.mount(&mount)).is_ok(),
            "NnfNodeStorage" => object.try_parse().map(|made| one.file_systems(&made)).is_ok(),
            _ => object.try_parse().map(|made| one.blocks(&made)).is_ok(),
        };
        if !read {
            one.mounted = true;
            one.pending.push(format!("{} cannot be read", member.label()));
        }
    }
    let computes: Vec<String> = objects
        .of::<Computes>("Computes")
        .flat_map(|computes| computes.names().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let is_mounting = objects
        .workflow
        .as_ref()
        .is_some_and(|workflow| workflow.spec.desired_state == WorkflowState::PreRun);
    let mut conditions: Vec<NodeCondition> = Vec::new();
    for compute in computes {
        let mut one = said.remove(&compute).unwrap_or_else(|| Said {
            pending: is_mounting
                .then(|| "it has no ClientMount yet".to_owned())
                .into_iter()
                .collect(),
            ..Said::default()
        });
        one.pending.truncate(1);
        conditions.push(one.condition(compute, facts));
    }
    conditions.extend(said.into_iter().map(|(node, one)| one.condition(node, facts)));
    conditions
}

impl Said {
    fn mount(&mut self, mount: &ClientMount) {
        let wanted = &mount.spec.desired_state;
        let status = mount.status.as_ref();
        let is_there = status.is_some_and(|status| {
            status.all_ready && status.mounts.iter().all(|one| one.state == *wanted)
        });
        let is_released =
            status.is_some_and(|status| status.says_unmounted(mount.spec.mounts.len()));
        let was_taken_up =
            mount.finalizers().iter().any(|one| one == finalizer::CLIENT_MOUNT) || status.is_some();
        self.mounted |= was_taken_up && !is_released;
        let error = status.and_then(|status| status.error.as_ref());
        let what = if *wanted == MountState::Mounted { "not mounted" } else { "not unmounted" };
        self.note(is_there, error, what);
    }

    fn file_systems(&mut self, made: &NnfNodeStorage) {
        let status = made.status.as_ref();
        let error = status.and_then(|status| status.error.as_ref());
        self.note(
            status.is_some_and(|status| status.ready),
            error,
            "its file systems are not made",
        );
    }

    fn blocks(&mut self, made: &NnfNodeBlockStorage) {
        let status = made.status.as_ref();
        let error = status.and_then(|status| status.error.as_ref());
        self.note(status.is_some_and(|status| status.ready), error, "its namespaces are not made");
    }

    fn note(&mut self, is_there: bool, error: Option<&ResourceError>, what: &str) {
        match error {
            Some(error) => {
                let text = error.user_message.as_ref().unwrap_or(&error.debug_message);
                self.faults.push(text.clone());
            }
            None if !is_there => self.pending.push(what.to_owned()),
            None => {}
        }
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
