//! Derives the work of each node from its objects: the times at which it was requested and done.
//!
//! The times come from an object's metadata. kube-apiserver records the time at which each field was written
//! (`managedFields`); the embedded API does not. Without that record, or when an agent reported again later, the work
//! counts as done together with the directive's share of the state (the part of a state that one directive takes): the
//! engine ends a share only when all nodes have done their work.
//! After Teardown the objects are gone, and the timeline has no rows of nodes.

use api::client_mount::MountState;
use api::{ClientMount, NnfNodeStorage, RabbitLabels, Workflow, WorkflowState};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, Time};
use kube::Resource;
use workload::Objects;

use super::{Outcome, Row, Subject, outcome};

/// Returns rows for all nodes that have objects. `states` has the rows of states and directives.
pub(super) fn rows(objects: &Objects, workflow: &Workflow, states: &[Row]) -> Vec<Row> {
    let past = Past { workflow, states };
    let storages = objects.of_kind::<NnfNodeStorage>("NnfNodeStorage");
    let storages = storages.flat_map(|storage| past.storage(&storage));
    let mounts = objects.of_kind::<ClientMount>("ClientMount").flat_map(|mount| past.mount(&mount));
    storages.chain(mounts).collect()
}

/// The states that have begun, as rows, and their workflow.
struct Past<'a> {
    workflow: &'a Workflow,
    states: &'a [Row],
}

/// One piece of a node's work.
struct Work<'a> {
    what: &'a str,
    state: WorkflowState,
    /// Time of the request, if recorded.
    requested: Option<Timestamp>,
    is_done: bool,
    is_error: bool,
    /// Time of the agent's last report, if the report concerns this work.
    reported: Option<Timestamp>,
}

impl Past<'_> {
    fn storage(&self, storage: &NnfNodeStorage) -> Vec<Row> {
        let (meta, status) = (storage.meta(), storage.status.as_ref());
        let is_error = status.is_some_and(|status| status.error.is_some());
        let making = Work {
            what: "make storage",
            state: WorkflowState::Setup,
            requested: moment(meta.creation_timestamp.as_ref()),
            is_done: status.is_some_and(|status| status.ready),
            is_error,
            reported: last_report(meta).filter(|_| meta.deletion_timestamp.is_none()),
        };
        let is_going = meta.deletion_timestamp.is_some();
        let removed = is_going.then(|| Work {
            what: "remove storage",
            state: WorkflowState::Teardown,
            requested: moment(meta.deletion_timestamp.as_ref()),
            is_done: false,
            is_error,
            reported: None,
        });
        // Storage that is deleted before it is complete is never completed.
        let making = Some(making).filter(|making| making.is_done || !is_going);
        self.rows(storage, making.into_iter().chain(removed))
    }

    fn mount(&self, mount: &ClientMount) -> Vec<Row> {
        let meta = mount.meta();
        let is_wanted = mount.spec.desired_state == MountState::Mounted;
        let is_error = mount.status.as_ref().is_some_and(|status| status.error.is_some());
        let is_done = mount.has_reached_desired_state();
        let mounted = Work {
            what: "mount",
            state: WorkflowState::PreRun,
            requested: moment(meta.creation_timestamp.as_ref()),
            is_done: is_done || !is_wanted,
            is_error: is_error && is_wanted,
            reported: last_report(meta).filter(|_| is_wanted),
        };
        let unmounted = (!is_wanted).then(|| Work {
            what: "unmount",
            state: self
                .state_row(&WorkflowState::PostRun)
                .map_or(WorkflowState::Teardown, |_| WorkflowState::PostRun),
            requested: last_desired_state_write(meta),
            is_done,
            is_error,
            reported: last_report(meta),
        });
        // A mount that is being undone may never have been mounted, if its directive's share of PreRun is not
        // complete.
        let is_known = is_wanted || self.share(mount, &WorkflowState::PreRun).is_some();
        let mounted = Some(mounted).filter(|_| is_known);
        self.rows(mount, mounted.into_iter().chain(unmounted))
    }

    fn rows<'a, K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        works: impl Iterator<Item = Work<'a>>,
    ) -> Vec<Row> {
        works.filter_map(|work| self.row(object, &work)).collect()
    }

    fn row<K: Resource<DynamicType = ()>>(&self, object: &K, work: &Work<'_>) -> Option<Row> {
        let state = self.state_row(&work.state);
        // Metadata has whole seconds: keeps the begin from being before the begin of the state.
        let requested = work
            .requested
            .map(|requested| state.map_or(requested, |state| requested.max(state.begin)));
        let begin = requested.or(state.map(|state| state.begin))?;
        let share = self.share(object, &work.state).filter(|_| work.is_done);
        let end = work.reported.into_iter().chain(share).filter(|_| work.is_done).min();
        let outcome = match outcome(work.is_done, work.is_error) {
            // The work was done at an unknown time: it has no row.
            Outcome::Done if end.is_none() => return None,
            outcome => outcome,
        };
        let end = end.map(|end| end.max(begin));
        Some(Row {
            state: work.state.to_string(),
            subject: Subject::of_node(object, work.what),
            begin,
            begin_is_taken: requested.is_none(),
            end,
            end_is_taken: end.is_some()
                && work.reported.is_none_or(|at| share.is_some_and(|share| share < at)),
            outcome,
        })
    }

    /// Returns the row of a state that has begun.
    fn state_row(&self, state: &WorkflowState) -> Option<&Row> {
        let mut states = self.states.iter().filter(|row| row.subject == Subject::State);
        states.find(|row| row.state == state.as_str())
    }

    /// Returns the time at which the directive's share of a state was done. A share is done only when the work of all
    /// its nodes is done.
    fn share<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        state: &WorkflowState,
    ) -> Option<Timestamp> {
        let index: i64 = object.directive_index()?.parse().ok()?;
        let drivers = &self.workflow.status.as_ref()?.drivers;
        let mut shares =
            drivers.iter().filter(|share| share.dwd_index == index && share.watch_state == *state);
        shares.find(|share| share.completed)?.complete_time.as_ref().map(|at| at.0)
    }
}

fn moment(at: Option<&Time>) -> Option<Timestamp> {
    at.map(|at| at.0)
}

/// Returns the time at which an agent last wrote the status.
fn last_report(meta: &ObjectMeta) -> Option<Timestamp> {
    last_write(meta, |entry| entry.subresource.as_deref() == Some("status"))
}

/// Returns the time at which a mount's desired state was last written.
fn last_desired_state_write(meta: &ObjectMeta) -> Option<Timestamp> {
    last_write(meta, |entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0["f:spec"]["f:desiredState"]);
        fields.is_some_and(|field| !field.is_null())
    })
}

fn last_write(
    meta: &ObjectMeta,
    matches: impl Fn(&ManagedFieldsEntry) -> bool,
) -> Option<Timestamp> {
    let entries = meta.managed_fields.iter().flatten().filter(|entry| matches(entry));
    entries.filter_map(|entry| moment(entry.time.as_ref())).max()
}
