//! The timeline of a workflow: begin and end of each state, directive and node. Built from the workflow's objects, or
//! recorded while the workflow runs ([`super::recorder`]).
//!
//! The objects keep only some times: the end of each directive's share (the part of a state that one directive takes),
//! and begin and end of the last state. If a begin is not recorded, the row gets the end of the previous state as its
//! begin, and a mark. [`nodes`] documents the times of nodes.

mod gantt;
mod nodes;
mod svg;

use std::collections::BTreeMap;

use api::{RabbitLabels, Workflow, WorkflowState};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde::Serialize;

pub(crate) use gantt::gantt;
pub(crate) use svg::svg;
use workload::Objects;

/// The timeline of one workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Timeline {
    pub workflow: String,
    pub rows: Vec<Row>,
}

/// A line of the timeline: one state, or a directive or node in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub state: String,
    pub subject: Subject,
    pub begin: Timestamp,
    /// Whether `begin` is the end of the previous state, because the begin was not recorded.
    pub begin_is_taken: bool,
    /// The end; `None` while the state or the work lasts, or if the end is unknown.
    pub end: Option<Timestamp>,
    /// Whether `end` is the end of the directive's share, because the node's own end was not recorded. The share ends
    /// only after the work of all its nodes.
    pub end_is_taken: bool,
    pub outcome: Outcome,
}

/// The subject of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Subject {
    State,
    /// A directive's share of the state, by index and command.
    Directive(i64, String),
    /// A node's share of the state: the node's name, and its work.
    Node(String, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Outcome {
    Done,
    Lasts,
    Failed,
}

impl Row {
    /// Returns whether the row may have taken less time than shown.
    pub(crate) fn is_bound(&self) -> bool {
        self.begin_is_taken || self.end_is_taken
    }

    pub(crate) fn label(&self) -> String {
        match &self.subject {
            Subject::State => self.state.clone(),
            Subject::Directive(index, command) => format!("  {index} {command}"),
            Subject::Node(node, what) => format!("  {node} {what}"),
        }
    }
}

impl Subject {
    /// Returns the subject of a node's work on an object.
    pub(super) fn of_node<K: Resource<DynamicType = ()>>(object: &K, what: &str) -> Self {
        let index = object.directive_index().map(|index| format!(" {index}")).unwrap_or_default();
        Self::Node(object.namespace().unwrap_or_default(), format!("{what}{index}"))
    }
}

impl Timeline {
    /// Builds the timeline from a workflow's objects; `None` without a Workflow.
    pub(crate) fn from_objects(objects: &Objects) -> Option<Self> {
        let workflow = objects.workflow.as_ref()?;
        let mut rows = Vec::new();
        let mut begin = workflow.creation_timestamp()?.0;
        for state in &WorkflowState::ORDER {
            let state_rows = rows_of(workflow, state, begin);
            begin = state_rows.iter().filter_map(|row| row.end).max().unwrap_or(begin);
            rows.extend(state_rows);
        }
        rows.extend(nodes::rows(objects, workflow, &rows));
        Some(Self { workflow: workflow.name_any(), rows: sort_rows(rows) })
    }

    /// Returns the first begin and the last end; `now` while a row lasts.
    pub(crate) fn extent(&self, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let begin = self.rows.iter().map(|row| row.begin).min()?;
        let end = self.rows.iter().map(|row| row.end.unwrap_or(now)).max()?;
        Some((begin, end.max(begin)))
    }
}

/// Returns a row for a state that has begun, and a row for each directive that takes part in the state.
fn rows_of(workflow: &Workflow, state: &WorkflowState, begin: Timestamp) -> Vec<Row> {
    let Some(status) = &workflow.status else { return Vec::new() };
    let is_current = status.state.as_ref() == Some(state);
    let begin_recorded = status.desired_state_change.filter(|_| is_current).map(|moment| moment.0);
    let drivers = status.drivers.iter().filter(|driver| driver.watch_state == *state);
    let mut rows: Vec<Row> = Vec::new();
    for driver in drivers {
        let end = driver.complete_time.map(|moment| moment.0);
        if end.is_none() && !is_current {
            continue;
        }
        let subject = Subject::Directive(driver.dwd_index, command(workflow, driver.dwd_index));
        let outcome =
            outcome(driver.completed, driver.status == api::workflow::DriverStatus::Error);
        rows.push(row(state, subject, begin_recorded, begin, end, outcome));
    }
    let end = if is_current {
        status.ready_change.filter(|_| status.ready).map(|moment| moment.0)
    } else {
        rows.iter().filter_map(|row| row.end).max()
    };
    if rows.is_empty() && !is_current {
        return rows;
    }
    let is_error = is_current && status.status == Some(api::workflow::WorkflowStatusKind::Error);
    let outcome = outcome(end.is_some(), is_error);
    rows.insert(0, row(state, Subject::State, begin_recorded, begin, end, outcome));
    rows
}

fn row(
    state: &WorkflowState,
    subject: Subject,
    recorded: Option<Timestamp>,
    taken: Timestamp,
    end: Option<Timestamp>,
    outcome: Outcome,
) -> Row {
    // Metadata has whole seconds, a status microseconds: keeps the begin from being after the end.
    let begin = recorded.unwrap_or(taken).min(end.unwrap_or(Timestamp::MAX));
    Row {
        state: state.to_string(),
        subject,
        begin,
        begin_is_taken: recorded.is_none(),
        end,
        end_is_taken: false,
        outcome,
    }
}

pub(super) fn outcome(is_done: bool, is_error: bool) -> Outcome {
    match (is_done, is_error) {
        (true, _) => Outcome::Done,
        (false, true) => Outcome::Failed,
        (false, false) => Outcome::Lasts,
    }
}

/// Returns the command and name of a directive; `directive` if it cannot be parsed.
pub(super) fn command(workflow: &Workflow, index: i64) -> String {
    let line = usize::try_from(index).ok().and_then(|index| workflow.spec.directives.get(index));
    let directive = line.and_then(|line| line.parse::<directive::Directive>().ok());
    let Some(directive) = directive else { return "directive".to_owned() };
    match directive.value("name") {
        Some(name) => format!("{} {name}", directive.command),
        None => directive.command,
    }
}

/// Sorts rows by state, and within a state by subject.
pub(super) fn sort_rows(mut rows: Vec<Row>) -> Vec<Row> {
    let places: BTreeMap<&str, usize> = WorkflowState::VALUES.iter().copied().zip(0..).collect();
    rows.sort_by(|left, right| {
        let place = |row: &Row| places.get(row.state.as_str()).copied();
        (place(left), &left.subject, left.begin).cmp(&(place(right), &right.subject, right.begin))
    });
    rows
}

/// Formats a duration, in ms or s.
fn format_duration(begin: Timestamp, end: Timestamp) -> String {
    let micros = u64::try_from(end.as_microsecond() - begin.as_microsecond()).unwrap_or_default();
    match micros {
        0..10_000 => format!("{}.{} ms", micros / 1000, micros % 1000 / 100),
        10_000..1_000_000 => format!("{} ms", micros / 1000),
        _ => format!("{}.{:02} s", micros / 1_000_000, micros % 1_000_000 / 10_000),
    }
}

#[cfg(test)]
mod tests;
