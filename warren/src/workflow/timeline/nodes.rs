//! What the objects tell of each node: when its work was asked for and done.
//!
//! Times come from an object's metadata. A real server tracks who wrote which field when (`managedFields`); the embedded one does
//! not. Without that, and when an agent reported again later, the work counts as done when the directive's share of the state
//! was: the engine waits for all nodes before it. These rows go with the objects: after Teardown there are none.

use api::client_mount::MountState;
use api::{ClientMount, NnfNodeStorage, RabbitLabels, Workflow, WorkflowState};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, Time};
use kube::Resource;
use workload::Objects;

use super::{Outcome, Row, Subject, outcome};

/// Rows of all nodes whose objects are there, beside those of states.
pub(super) fn rows(objects: &Objects, workflow: &Workflow, states: &[Row]) -> Vec<Row> {
    let past = Past { workflow, states };
    let storages = objects.of::<NnfNodeStorage>("NnfNodeStorage");
    let storages = storages.flat_map(|storage| past.storage(&storage));
    let mounts = objects.of::<ClientMount>("ClientMount").flat_map(|mount| past.mount(&mount));
    storages.chain(mounts).collect()
}

/// The states so far.
struct Past<'a> {
    workflow: &'a Workflow,
    states: &'a [Row],
}

/// One piece of a node's work.
struct Work<'a> {
    what: &'a str,
    state: WorkflowState,
    /// When it was asked for, if that is recorded.
    asked: Option<Timestamp>,
    is_done: bool,
    is_error: bool,
    /// The last report, unless it is of something else.
    reported: Option<Timestamp>,
}

impl Past<'_> {
    fn storage(&self, storage: &NnfNodeStorage) -> Vec<Row> {
        let (meta, status) = (storage.meta(), storage.status.as_ref());
        let is_error = status.is_some_and(|status| status.error.is_some());
        let making = Work {
            what: "make storage",
            state: WorkflowState::Setup,
            asked: moment(meta.creation_timestamp.as_ref()),
            is_done: status.is_some_and(|status| status.ready),
            is_error,
            reported: reported(meta).filter(|_| meta.deletion_timestamp.is_none()),
        };
        let is_going = meta.deletion_timestamp.is_some();
        let removed = is_going.then(|| Work {
            what: "remove storage",
            state: WorkflowState::Teardown,
            asked: moment(meta.deletion_timestamp.as_ref()),
            is_done: false,
            is_error,
            reported: None,
        });
        // What is deleted before it was made will never be made.
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
            asked: moment(meta.creation_timestamp.as_ref()),
            is_done: is_done || !is_wanted,
            is_error: is_error && is_wanted,
            reported: reported(meta).filter(|_| is_wanted),
        };
        let unmounted = (!is_wanted).then(|| Work {
            what: "unmount",
            state: self
                .begun(&WorkflowState::PostRun)
                .map_or(WorkflowState::Teardown, |_| WorkflowState::PostRun),
            asked: desired(meta),
            is_done,
            is_error,
            reported: reported(meta),
        });
        // Of a mount that is to be undone and that no share of PreRun was done with, nobody knows whether it ever was there.
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
        let state = self.begun(&work.state);
        // Metadata has whole seconds: nothing begins before its state does.
        let asked = work.asked.map(|asked| state.map_or(asked, |state| asked.max(state.begin)));
        let begin = asked.or(state.map(|state| state.begin))?;
        let share = self.share(object, &work.state).filter(|_| work.is_done);
        let end = work.reported.into_iter().chain(share).filter(|_| work.is_done).min();
        let outcome = match outcome(work.is_done, work.is_error) {
            // Done, and nobody knows when.
            Outcome::Done if end.is_none() => return None,
            outcome => outcome,
        };
        let end = end.map(|end| end.max(begin));
        Some(Row {
            state: work.state.to_string(),
            subject: Subject::of_node(object, work.what),
            begin,
            begin_is_taken: asked.is_none(),
            end,
            end_is_taken: end.is_some()
                && work.reported.is_none_or(|at| share.is_some_and(|share| share < at)),
            outcome,
        })
    }

    /// The row of a state that has begun.
    fn begun(&self, state: &WorkflowState) -> Option<&Row> {
        let mut of = self.states.iter().filter(|row| row.subject == Subject::State);
        of.find(|row| row.state == state.as_str())
    }

    /// When a directive's share of a state was done. No share is done before all of its nodes are.
    fn share<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        state: &WorkflowState,
    ) -> Option<Timestamp> {
        let index: i64 = object.directive_index()?.parse().ok()?;
        let drivers = &self.workflow.status.as_ref()?.drivers;
        let mut of =
            drivers.iter().filter(|one| one.dwd_index == index && one.watch_state == *state);
        of.find(|one| one.completed)?.complete_time.as_ref().map(|at| at.0)
    }
}

fn moment(at: Option<&Time>) -> Option<Timestamp> {
    at.map(|at| at.0)
}

/// When an agent last wrote the status.
fn reported(meta: &ObjectMeta) -> Option<Timestamp> {
    written(meta, |entry| entry.subresource.as_deref() == Some("status"))
}

/// When the state that a mount is to be in was last written.
fn desired(meta: &ObjectMeta) -> Option<Timestamp> {
    written(meta, |entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0["f:spec"]["f:desiredState"]);
        fields.is_some_and(|field| !field.is_null())
    })
}

fn written(meta: &ObjectMeta, is_it: impl Fn(&ManagedFieldsEntry) -> bool) -> Option<Timestamp> {
    let entries = meta.managed_fields.iter().flatten().filter(|entry| is_it(entry));
    entries.filter_map(|entry| moment(entry.time.as_ref())).max()
}
