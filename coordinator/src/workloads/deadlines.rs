//! The deadlines of a Workflow's states: who set each one, when, and whether it was met. Pure.
//!
//! An annotation of the Workflow keeps them, so that every coordinator knows them.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{Workflow, WorkflowState};
use jiff::Timestamp;
use kube::ResourceExt;
use proto::v1::{Deadline, deadline::Outcome};
use serde::{Deserialize, Serialize};

/// The annotation: a Record for each state, as JSON.
pub(super) const ANNOTATION: &str = "warren/deadlines";

/// One deadline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub owner: String,
    pub asked: Timestamp,
    pub due: Timestamp,
    /// Whether the deadline was met; set once another state follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Ended>,
}

/// How a deadline ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Ended {
    Met,
    Missed,
    /// Teardown came before.
    Abandoned,
}

/// The deadlines of one Workflow, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Deadlines(BTreeMap<String, Record>);

impl Deadlines {
    /// The deadlines in a Workflow's annotation. An annotation that cannot be read counts as none.
    pub(super) fn of(workflow: &Workflow) -> Self {
        let text = workflow.annotations().get(ANNOTATION);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The annotation's text.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn get(&self, state: &WorkflowState) -> Option<&Record> {
        self.0.get(state.as_str())
    }

    /// Sets the deadline of a state, unless one is set; to begin anew, `renew`.
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

    /// Records how each deadline ended, before the coordinator asks the Workflow for another state.
    pub(super) fn settle(&mut self, workflow: &Workflow, next: &WorkflowState, now: Timestamp) {
        for (state, record) in &mut self.0 {
            let state = WorkflowState::from(state.as_str());
            if state == *next || record.outcome.is_some() {
                continue;
            }
            record.outcome = match record.ended(&state, workflow, now) {
                None if *next == WorkflowState::Teardown => Some(Ended::Abandoned),
                ended => ended,
            };
        }
    }

    /// The deadlines as an answer has them, in the order of the states.
    pub(super) fn reported(&self, workflow: &Workflow, now: Timestamp) -> Vec<Deadline> {
        let states = WorkflowState::ORDER.iter();
        let records = states.filter_map(|state| Some((state, self.get(state)?)));
        records
            .map(|(state, record)| Deadline {
                state: state.to_string(),
                owner: record.owner.clone(),
                asked: record.asked.as_second(),
                due: record.due.as_second(),
                outcome: match record.ended(state, workflow, now) {
                    None => Outcome::Open,
                    Some(Ended::Met) => Outcome::Met,
                    Some(Ended::Missed) => Outcome::Missed,
                    Some(Ended::Abandoned) => Outcome::Abandoned,
                }
                .into(),
            })
            .collect()
    }

    /// One that passed before its state was reached.
    pub(super) fn missed(&self, workflow: &Workflow, now: Timestamp) -> Option<&Record> {
        let reached = workflow.status.as_ref().filter(|status| status.ready);
        let reached = reached.and_then(|status| status.state.as_ref()).map(WorkflowState::as_str);
        let open = self
            .0
            .iter()
            .filter(|(state, record)| record.outcome.is_none() && reached != Some(state.as_str()));
        let mut missed = open.filter(|(state, record)| {
            let state = WorkflowState::from(state.as_str());
            record.ended(&state, workflow, now) == Some(Ended::Missed)
        });
        missed.next().map(|(_, record)| record)
    }

    /// When the next of them passes.
    pub(super) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.0.values().map(|record| record.due).filter(|due| *due > now).min()
    }
}

impl Record {
    /// What became of the deadline of a state; `None` while there is time.
    fn ended(&self, state: &WorkflowState, workflow: &Workflow, now: Timestamp) -> Option<Ended> {
        if self.outcome.is_some() {
            return self.outcome;
        }
        let status = workflow.status.as_ref();
        let current = status.and_then(|status| status.state.as_ref());
        let judged =
            |reached: Timestamp| Some(if reached <= self.due { Ended::Met } else { Ended::Missed });
        let order = |state| WorkflowState::ORDER.iter().position(|one| one == state);
        if current == Some(state) && status.is_some_and(|status| status.ready) {
            let reached = status.and_then(|status| status.ready_change.as_ref());
            return judged(reached.map_or(now, |moment| moment.0));
        }
        if current.and_then(order) > order(state) {
            if current == Some(&WorkflowState::Teardown) {
                return Some(Ended::Abandoned);
            }
            // It was reached before the next was asked for.
            let asked = status.and_then(|status| status.desired_state_change.as_ref());
            return judged(asked.map_or(now, |moment| moment.0));
        }
        (now > self.due).then_some(Ended::Missed)
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
        deadlines.reported(workflow, at(now))[0].outcome()
    }

    #[test]
    fn a_deadline_is_open_then_met_or_missed() {
        let waiting = workflow("Setup", false);
        assert_eq!(outcome(&with_setup(30), &waiting, 30), Outcome::Open);
        assert_eq!(outcome(&with_setup(30), &waiting, 31), Outcome::Missed);
        let ready = workflow("Setup", true);
        assert_eq!(outcome(&with_setup(30), &ready, 1000), Outcome::Met);
        assert_eq!(outcome(&with_setup(10), &ready, 1000), Outcome::Missed, "reached, but late");
    }

    #[test]
    fn what_became_of_it_is_kept_when_another_state_follows() {
        let mut late = with_setup(10);
        late.settle(&workflow("Setup", true), &WorkflowState::DataIn, at(40));
        assert_eq!(outcome(&late, &workflow("PreRun", false), 50), Outcome::Missed);
        let mut open = with_setup(60);
        open.settle(&workflow("Setup", false), &WorkflowState::Teardown, at(40));
        assert_eq!(outcome(&open, &workflow("Teardown", true), 50), Outcome::Abandoned);
        assert_eq!(outcome(&with_setup(10), &workflow("DataIn", false), 50), Outcome::Met);
    }

    #[test]
    fn a_repeated_call_keeps_to_the_first_deadline_unless_it_renews_it() {
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
    fn a_workflow_keeps_them_and_a_spoilt_annotation_is_none() {
        let deadlines = with_setup(30);
        let mut kept = workflow("Setup", false);
        kept.annotations_mut().insert(ANNOTATION.to_owned(), deadlines.text());
        assert_eq!(Deadlines::of(&kept), deadlines);
        kept.annotations_mut().insert(ANNOTATION.to_owned(), "7".to_owned());
        assert_eq!(Deadlines::of(&kept), Deadlines::default());
    }
}
