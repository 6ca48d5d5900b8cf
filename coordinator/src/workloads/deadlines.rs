//! The deadlines of a Workflow's states, each with the caller that set it, its times and its outcome. Pure.
//!
//! The deadlines are stored in an annotation of the Workflow, so that every coordinator knows them.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{Workflow, WorkflowState};
use jiff::Timestamp;
use kube::ResourceExt;
use proto::v1::{Deadline, deadline::Outcome};
use serde::{Deserialize, Serialize};

/// Annotation with a [`Record`] for each state, as JSON.
pub(super) const ANNOTATION: &str = "warren/deadlines";

/// The deadline of one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The caller that set the deadline.
    pub owner: String,
    /// The time of the call that set the deadline.
    pub asked: Timestamp,
    pub due: Timestamp,
    /// The outcome of the deadline; set once the Workflow's next state is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<DeadlineEnd>,
}

/// How a deadline ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DeadlineEnd {
    Met,
    Missed,
    /// Teardown was requested before the state was reached.
    Abandoned,
}

/// The deadlines of one Workflow, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Deadlines(BTreeMap<String, Record>);

impl Deadlines {
    /// Reads the deadlines from a Workflow's annotation. An annotation that cannot be read counts as none.
    pub(super) fn read(workflow: &Workflow) -> Self {
        let text = workflow.annotations().get(ANNOTATION);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Returns the annotation's text.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn get(&self, state: &WorkflowState) -> Option<&Record> {
        self.0.get(state.as_str())
    }

    /// Sets the deadline of a state. Keeps an existing deadline, unless `renew` is set.
    pub(super) fn set(
        &mut self,
        state: &WorkflowState,
        owner: String,
        now: Timestamp,
        patience: Duration,
        renew: bool,
    ) -> Record {
        let due = now.checked_add(patience).unwrap_or(Timestamp::MAX);
        let new = Record { owner, asked: now, due, outcome: None };
        if renew {
            self.0.insert(state.to_string(), new.clone());
            return new;
        }
        self.0.entry(state.to_string()).or_insert(new).clone()
    }

    /// Records the outcome of each deadline, before the coordinator requests state `next`.
    pub(super) fn settle(&mut self, workflow: &Workflow, next: &WorkflowState, now: Timestamp) {
        for (state, record) in &mut self.0 {
            let state = WorkflowState::from(state.as_str());
            if state == *next || record.outcome.is_some() {
                continue;
            }
            record.outcome = match record.end(&state, workflow, now) {
                None if *next == WorkflowState::Teardown => Some(DeadlineEnd::Abandoned),
                end => end,
            };
        }
    }

    /// Converts the deadlines for an answer, in the order of the states.
    pub(super) fn to_proto(&self, workflow: &Workflow, now: Timestamp) -> Vec<Deadline> {
        let states = WorkflowState::ORDER.iter();
        let records = states.filter_map(|state| Some((state, self.get(state)?)));
        records
            .map(|(state, record)| Deadline {
                state: state.to_string(),
                owner: record.owner.clone(),
                asked: record.asked.as_second(),
                due: record.due.as_second(),
                outcome: match record.end(state, workflow, now) {
                    None => Outcome::Open,
                    Some(DeadlineEnd::Met) => Outcome::Met,
                    Some(DeadlineEnd::Missed) => Outcome::Missed,
                    Some(DeadlineEnd::Abandoned) => Outcome::Abandoned,
                }
                .into(),
            })
            .collect()
    }

    /// Returns a deadline that passed before its state was reached.
    pub(super) fn missed(&self, workflow: &Workflow, now: Timestamp) -> Option<&Record> {
        let reached = workflow.status.as_ref().filter(|status| status.ready);
        let reached = reached.and_then(|status| status.state.as_ref()).map(WorkflowState::as_str);
        let open = self
            .0
            .iter()
            .filter(|(state, record)| record.outcome.is_none() && reached != Some(state.as_str()));
        let mut missed = open.filter(|(state, record)| {
            let state = WorkflowState::from(state.as_str());
            record.end(&state, workflow, now) == Some(DeadlineEnd::Missed)
        });
        missed.next().map(|(_, record)| record)
    }

    /// Returns the time at which the next deadline passes.
    pub(super) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.0.values().map(|record| record.due).filter(|due| *due > now).min()
    }
}

impl Record {
    /// Returns the outcome of the deadline of a state; `None` while the deadline is open.
    fn end(
        &self,
        state: &WorkflowState,
        workflow: &Workflow,
        now: Timestamp,
    ) -> Option<DeadlineEnd> {
        if self.outcome.is_some() {
            return self.outcome;
        }
        let status = workflow.status.as_ref();
        let current = status.and_then(|status| status.state.as_ref());
        let met_or_missed = |reached: Timestamp| {
            Some(if reached <= self.due { DeadlineEnd::Met } else { DeadlineEnd::Missed })
        };
        let order = |state| WorkflowState::ORDER.iter().position(|other| other == state);
        if current == Some(state) && status.is_some_and(|status| status.ready) {
            let reached = status.and_then(|status| status.ready_change.as_ref());
            return met_or_missed(reached.map_or(now, |moment| moment.0));
        }
        if current.and_then(order) > order(state) {
            if current == Some(&WorkflowState::Teardown) {
                return Some(DeadlineEnd::Abandoned);
            }
            // The Workflow is in a later state. Counts `state` as reached when that later state was requested.
            let next_request = status.and_then(|status| status.desired_state_change.as_ref());
            return met_or_missed(next_request.map_or(now, |moment| moment.0));
        }
        (now > self.due).then_some(DeadlineEnd::Missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn workflow(state: &str, ready: bool) -> Workflow {
        serde_json::from_value(json!({
            "metadata": {"name": "s-1"},
            "spec": {"desiredState": state, "wlmID": "s", "jobID": "1", "userID": 0, "groupID": 0, "dwDirectives": []},
            "status": {"state": state, "ready": ready, "desiredStateChange": at(0).to_string(), "readyChange": at(20).to_string()},
        }))
        .unwrap()
    }

    fn with_setup(seconds: u64) -> Deadlines {
        let mut deadlines = Deadlines::default();
        let patience = Duration::from_secs(seconds);
        deadlines.set(&WorkflowState::Setup, "uid 0".to_owned(), at(0), patience, false);
        deadlines
    }

    fn outcome(deadlines: &Deadlines, workflow: &Workflow, now: i64) -> Outcome {
        deadlines.to_proto(workflow, at(now))[0].outcome()
    }

    #[test]
    fn a_deadline_is_open_until_it_passes_or_its_state_is_ready_in_time() {
        let waiting = workflow("Setup", false);
        assert_eq!(outcome(&with_setup(30), &waiting, 30), Outcome::Open);
        assert_eq!(outcome(&with_setup(30), &waiting, 31), Outcome::Missed);
        let ready = workflow("Setup", true);
        assert_eq!(outcome(&with_setup(30), &ready, 1000), Outcome::Met);
        assert_eq!(
            outcome(&with_setup(10), &ready, 1000),
            Outcome::Missed,
            "reached after the deadline"
        );
    }

    #[test]
    fn the_outcome_of_a_deadline_is_kept_when_another_state_follows() {
        let mut late = with_setup(10);
        late.settle(&workflow("Setup", true), &WorkflowState::DataIn, at(40));
        assert_eq!(outcome(&late, &workflow("PreRun", false), 50), Outcome::Missed);
        let mut open = with_setup(60);
        open.settle(&workflow("Setup", false), &WorkflowState::Teardown, at(40));
        assert_eq!(outcome(&open, &workflow("Teardown", true), 50), Outcome::Abandoned);
        assert_eq!(outcome(&with_setup(10), &workflow("DataIn", false), 50), Outcome::Met);
    }

    #[test]
    fn a_repeated_call_keeps_the_first_deadline_unless_it_renews_it() {
        let mut deadlines = with_setup(30);
        let mut again = |renew| {
            let minute = Duration::from_secs(60);
            deadlines.set(&WorkflowState::Setup, "uid 1".to_owned(), at(20), minute, renew).due
        };
        assert_eq!(again(false), at(30));
        assert_eq!(again(true), at(80));
        assert_eq!(deadlines.next(at(79)), Some(at(80)));
        assert_eq!(deadlines.next(at(80)), None);
    }

    #[test]
    fn deadlines_are_read_from_the_annotation_and_an_invalid_one_counts_as_none() {
        let deadlines = with_setup(30);
        let mut kept = workflow("Setup", false);
        kept.annotations_mut().insert(ANNOTATION.to_owned(), deadlines.text());
        assert_eq!(Deadlines::read(&kept), deadlines);
        kept.annotations_mut().insert(ANNOTATION.to_owned(), "7".to_owned());
        assert_eq!(Deadlines::read(&kept), Deadlines::default());
    }
}
