//! Records a workflow's timeline while the workflow runs: begin and end of each state from its status, and the work of
//! each node when its object changes.

use api::client_mount::MountState;
use api::workflow::WorkflowStatusKind;
use api::{ClientMount, NnfNodeStorage, Workflow, WorkflowState};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};

use super::timeline::{Outcome, Row, Subject, Timeline, command, outcome, sort_rows};

/// The rows recorded so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    workflow: String,
    state: WorkflowState,
    rows: Vec<Row>,
}

impl Recorder {
    /// Records a version of the workflow.
    pub(crate) fn workflow(&mut self, workflow: &Workflow) {
        self.workflow = workflow.name_any();
        let Some(status) = &workflow.status else { return };
        let (Some(state), Some(begin)) =
            (&status.state, status.desired_state_change.map(|moment| moment.0))
        else {
            return;
        };
        self.state = state.clone();
        let end = status.ready_change.filter(|_| status.ready).map(|moment| moment.0);
        let is_error = status.status == Some(WorkflowStatusKind::Error);
        self.put(Subject::State, begin, end, outcome(status.ready, is_error));
        for driver in status.drivers.iter().filter(|driver| driver.watch_state == *state) {
            let subject = Subject::Directive(driver.dwd_index, command(workflow, driver.dwd_index));
            let is_error = driver.status == api::workflow::DriverStatus::Error;
            let end = driver.complete_time.map(|moment| moment.0);
            self.put(subject, begin, end, outcome(driver.completed, is_error));
        }
    }

    /// Records a version of a mount.
    pub(crate) fn mount(&mut self, mount: &ClientMount, now: Timestamp) {
        let wanted = &mount.spec.desired_state;
        let what = if *wanted == MountState::Mounted { "mount" } else { "unmount" };
        let is_error = mount.status.as_ref().is_some_and(|status| status.error.is_some());
        self.node(mount, what, mount.has_reached_desired_state(), is_error, now);
    }

    /// Records a version of a rabbit's file systems.
    pub(crate) fn file_systems(&mut self, storage: &NnfNodeStorage, now: Timestamp) {
        let is_deleted = storage.meta().deletion_timestamp.is_some();
        let what = if is_deleted { "remove storage" } else { "make storage" };
        let status = storage.status.as_ref();
        let is_ready = !is_deleted && status.is_some_and(|status| status.ready);
        self.node(
            storage,
            what,
            is_ready,
            status.is_some_and(|status| status.error.is_some()),
            now,
        );
    }

    /// Records that an object of a node is gone.
    pub(crate) fn record_removal(&mut self, node: &str, now: Timestamp) {
        let open_rows = self.rows.iter_mut().filter(|row| {
            row.end.is_none() && matches!(&row.subject, Subject::Node(name, what) if name == node && what.starts_with("remove"))
        });
        open_rows.for_each(|row| (row.end, row.outcome) = (Some(now), Outcome::Done));
    }

    /// Returns all rows, sorted. Rows of nodes are assigned to states by time, since a watch may show a node's work
    /// before another watch shows the state that the work belongs to.
    pub(crate) fn timeline(&self) -> Timeline {
        let mut rows = self.rows.clone();
        for row in rows.iter_mut().filter(|row| matches!(row.subject, Subject::Node(..))) {
            let states = self.rows.iter().filter(|state| state.subject == Subject::State);
            let begun =
                states.filter(|state| state.begin <= row.begin).max_by_key(|state| state.begin);
            begun.iter().for_each(|state| row.state.clone_from(&state.state));
        }
        Timeline { workflow: self.workflow.clone(), rows: sort_rows(rows) }
    }

    fn node<K: Resource<DynamicType = ()>>(
        &mut self,
        object: &K,
        what: &str,
        is_done: bool,
        is_error: bool,
        now: Timestamp,
    ) {
        let subject = Subject::of_node(object, what);
        // An object that is seen again after its work is done begins no new row.
        if is_done && !self.rows.iter().any(|row| row.subject == subject && row.end.is_none()) {
            return;
        }
        self.put(subject, now, is_done.then_some(now), outcome(is_done, is_error));
    }

    /// Begins a row for the subject, or updates the subject's open row, and keeps an end that is already set.
    fn put(
        &mut self,
        subject: Subject,
        begin: Timestamp,
        end: Option<Timestamp>,
        outcome: Outcome,
    ) {
        let is_open = |row: &&mut Row| match subject {
            Subject::Node(..) => row.end.is_none(),
            Subject::State | Subject::Directive(..) => {
                row.state == self.state.as_str() && row.begin == begin
            }
        };
        let known = self.rows.iter_mut().filter(|row| row.subject == subject).find(is_open);
        if let Some(row) = known {
            (row.end, row.outcome) = (row.end.or(end), outcome);
            return;
        }
        let state = self.state.to_string();
        self.rows.push(Row {
            state,
            subject,
            begin,
            begin_is_taken: false,
            end,
            end_is_taken: false,
            outcome,
        });
    }
}

#[cfg(test)]
mod tests;
