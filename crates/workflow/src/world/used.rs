//! What the other storage of a user and of a project asks for, for the site's limits.

use std::collections::BTreeMap;

use api::{PersistentStorageInstance, Workflow, WorkflowState, names::annotation};
use controller::ObjectKey;
use kube::ResourceExt;

use super::{World, children::if_owned_by, object_key};
use crate::{
    limits::{Amount, Used},
    names::directive_object_name,
    objects::{
        instance::{is_made, is_made_by},
        reservations::Held,
    },
    plan::limits::{minimum_bytes, requested_bytes},
};

impl World {
    /// Returns the storage of a Workflow's user and project, without the Workflow's own; nothing where the site does not
    /// limit it, or the Workflow's storage is checked already.
    pub(super) fn used_by_others(&self, workflow: &Workflow) -> Used {
        let mut used = Used::default();
        let is_checked = workflow.status.as_ref().is_some_and(|status| {
            status.ready && status.state.as_ref() == Some(&workflow.spec.desired_state)
        });
        let states = [WorkflowState::Proposal, WorkflowState::Setup];
        let is_placed = !states.contains(&workflow.spec.desired_state);
        if is_placed || is_checked || !self.site.settings.limits.counts_others() {
            return used;
        }
        let held = self.site.reservations.held();
        let (user, group) = (workflow.spec.user_id, workflow.spec.group_id);
        let mut add = |is_user: bool, is_project: bool, amount: Amount| {
            let sums = [(is_user, &mut used.user), (is_project, &mut used.project)];
            for (_, sum) in sums.into_iter().filter(|(is_of, _)| *is_of) {
                sum.bytes = sum.bytes.saturating_add(amount.bytes);
                sum.persistent += amount.persistent;
            }
        };
        for other in self.workflows.iter().filter(|other| other.uid() != workflow.uid()) {
            let (is_user, is_project) = (other.spec.user_id == user, other.spec.group_id == group);
            if is_user || is_project {
                let bytes = self.bytes_of_job(other, workflow, &held);
                add(is_user, is_project, Amount { bytes, persistent: 0 });
            }
        }
        for instance in self.persistent.iter().filter(|other| !is_made_by(other, workflow)) {
            let (is_user, is_project) =
                (instance.spec.user_id == user, group_of(instance) == Some(group));
            if is_user || is_project {
                let bytes = self.bytes_of_instance(instance, &held);
                add(is_user, is_project, Amount { bytes, persistent: 1 });
            }
        }
        used
    }

    /// Returns the bytes that another Workflow asks for. Of two Workflows in Setup that together exceed a limit, one has
    /// to go on: a younger one does not count while none of its storage is made.
    fn bytes_of_job(
        &self,
        other: &Workflow,
        workflow: &Workflow,
        held: &BTreeMap<&ObjectKey, Held>,
    ) -> u64 {
        let age = |workflow: &Workflow| (workflow.creation_timestamp(), workflow.uid());
        let is_setup = workflow.spec.desired_state == WorkflowState::Setup;
        let may_go_first = is_setup && age(workflow) < age(other);
        let indexes = 0..other.spec.directives.len();
        let bytes = indexes.map(|index| self.bytes_of_directive(other, index, held));
        let all = bytes.fold((0_u64, false), |(sum, is_made), (bytes, made)| {
            (sum.saturating_add(bytes), is_made || made)
        });
        if may_go_first && !all.1 { 0 } else { all.0 }
    }

    /// Returns the bytes of a directive's storage, and whether some of it is made. Complete persistent storage is not its
    /// Workflow's any more.
    fn bytes_of_directive(
        &self,
        workflow: &Workflow,
        index: usize,
        held: &BTreeMap<&ObjectKey, Held>,
    ) -> (u64, bool) {
        let (namespace, name) = (object_key(workflow).0, directive_object_name(workflow, index));
        let uid = workflow.uid().unwrap_or_default();
        let Some(breakdown) = if_owned_by(self.breakdowns.get(&namespace, &name), &uid) else {
            return held.get(&(namespace, name)).map_or((0, false), Held::bytes_and_made);
        };
        let storage = breakdown.status.as_ref().and_then(|status| status.storage.as_ref());
        let servers = storage.and_then(|storage| storage.reference.as_ref()?.name.clone());
        let at = (namespace, servers.unwrap_or(name));
        let instance = self.servers.get(&at.0, &at.1);
        let instance = instance.and_then(|servers| crate::names::persistent_key(&**servers));
        let instance = instance.and_then(|at| self.persistent.get(&at.0, &at.1));
        if instance.is_some_and(|instance| is_made(instance)) {
            return (0, false);
        }
        if let Some(held) = held.get(&at).filter(|held| held.bytes() > 0 || held.is_made) {
            return held.bytes_and_made();
        }
        if workflow.spec.desired_state == WorkflowState::Teardown {
            return (0, false);
        }
        let line = &workflow.spec.directives[index];
        let bytes = storage.map(|storage| minimum_bytes(&storage.allocation_sets));
        (bytes.unwrap_or_else(|| requested_bytes(&self.site, line)), false)
    }

    /// Returns the bytes of complete persistent storage.
    fn bytes_of_instance(
        &self,
        instance: &PersistentStorageInstance,
        held: &BTreeMap<&ObjectKey, Held>,
    ) -> u64 {
        if !is_made(instance) {
            return 0;
        }
        let servers = self.storage_of_instance(instance).0.servers;
        let held = servers.and_then(|servers| held.get(&object_key(&*servers)).copied());
        held.map_or(0, |held| held.bytes())
    }
}

/// Returns the project of persistent storage; `None` for storage that an earlier version or the Go controllers made.
fn group_of(instance: &PersistentStorageInstance) -> Option<i64> {
    instance.annotations().get(annotation::GROUP_ID)?.parse().ok()
}
