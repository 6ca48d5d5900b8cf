//! Stores all Workflows and Computes, and answers questions about a job on a node from them.
//!
//! Every method takes one lock and returns; no method waits while it holds the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use controller::precedes;
use proto::v1::job_state::{Assignment, Knowledge};
use proto::v1::{JobName, JobState};
use tokio::sync::{Notify, watch};

use crate::name::describe;
use crate::workflow::{Computes, Workflow, WorkflowKey, has_reached};

/// The state in which a Workflow's mounts are made; before it the Computes may still be missing.
const PRE_RUN: &str = "PreRun";

/// Number of a question, in the order of opening. A list that was requested after the question is a certain answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The known Workflows and Computes, shared by the watches, the task that requests lists, and the nodes' sessions.
#[derive(Debug, Default)]
pub struct Jobs {
    state: Mutex<State>,
    /// Changes whenever an answer may have changed.
    changed: watch::Sender<()>,
    /// Notified when a list is to be requested from the API.
    wanted: Notify,
}

#[derive(Debug, Default)]
struct State {
    workflows: BTreeMap<WorkflowKey, Arc<Workflow>>,
    computes: BTreeMap<WorkflowKey, Computes>,
    /// Number of questions so far.
    questions: u64,
    /// Number of the last question after which all Workflows were listed.
    listed: u64,
    /// Number of the last question after which the Computes of a Workflow were read.
    looked: BTreeMap<WorkflowKey, u64>,
    /// Whether a question waits for a list of all Workflows.
    wants_list: bool,
    /// Workflows whose Computes a question waits for.
    wants_computes: BTreeSet<WorkflowKey>,
    /// The reason why the API does not answer; `None` while it does.
    failing: Option<String>,
}

/// A request to the API: all Workflows, and the Computes of some.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Number of the last question before the request.
    upto: u64,
    pub(crate) computes: BTreeSet<WorkflowKey>,
}

impl Jobs {
    /// Registers a question, and returns its number.
    pub fn ask(&self) -> Ticket {
        let mut state = self.lock();
        state.questions += 1;
        Ticket(state.questions)
    }

    /// Returns a receiver that is notified whenever an answer may have changed.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Returns the known state of a job on a node, without its ClientMounts. Requests missing objects from the API.
    pub fn state(&self, job: &JobName, node: &str, ticket: Ticket) -> JobState {
        let mut state = self.lock();
        let (answer, is_wanted) = state.answer(job, node, ticket);
        drop(state);
        if is_wanted {
            self.wanted.notify_one();
        }
        answer
    }

    /// Stores a Workflow, unless a newer version is known.
    pub fn apply_workflow(&self, workflow: Workflow) {
        self.change(|state| state.put(workflow));
    }

    /// Removes a Workflow that is gone.
    pub fn remove_workflow(&self, key: &WorkflowKey, uid: &str) {
        self.change(|state| {
            let is_this = state.workflows.get(key).is_some_and(|known| known.state.uid == uid);
            is_this && state.workflows.remove(key).is_some()
        });
    }

    /// Replaces all Workflows by a list of the watch.
    pub fn replace_workflows(&self, workflows: Vec<Workflow>) {
        self.change(|state| {
            state.workflows =
                workflows.into_iter().map(|known| (known.key(), Arc::new(known))).collect();
            state.ask_again();
            true
        });
    }

    /// Stores the Computes of a Workflow, unless a newer version is known.
    pub fn apply_computes(&self, key: WorkflowKey, computes: Computes) {
        self.change(|state| state.put_computes(key, computes));
    }

    /// Removes the Computes of a Workflow that are gone.
    pub fn remove_computes(&self, key: &WorkflowKey) {
        self.change(|state| {
            state.looked.remove(key);
            state.computes.remove(key).is_some()
        });
    }

    /// Replaces all Computes by a list of the watch.
    pub fn replace_computes(&self, computes: BTreeMap<WorkflowKey, Computes>) {
        self.change(|state| {
            state.computes = computes;
            state.ask_again();
            true
        });
    }

    /// Waits for a question that needs a request, and returns the request.
    pub(crate) async fn next_look(&self) -> Look {
        loop {
            if let Some(look) = self.lock().take_look() {
                return look;
            }
            self.wanted.notified().await;
        }
    }

    /// Stores the API's answer to a request: all Workflows, and the Computes of some.
    pub(crate) fn look_answered(
        &self,
        look: &Look,
        workflows: Vec<Workflow>,
        computes: BTreeMap<WorkflowKey, Option<Computes>>,
    ) {
        self.change(|state| {
            // Workflows that are not in the list are kept: the watch may know newer ones.
            for workflow in workflows {
                state.put(workflow);
            }
            state.listed = state.listed.max(look.upto);
            for (key, found) in computes {
                match found {
                    Some(found) => drop(state.put_computes(key.clone(), found)),
                    None => drop(state.computes.remove(&key)),
                }
                state.looked.insert(key, look.upto);
            }
            state.failing = None;
            true
        });
    }

    /// Records that the API did not answer, and queues the request again. Returns whether the reason is new.
    pub(crate) fn look_failed(&self, look: Look, why: String) -> bool {
        let mut is_new = false;
        self.change(|state| {
            is_new = state.failing.as_ref() != Some(&why);
            state.failing = Some(why);
            state.wants_list = true;
            state.wants_computes.extend(look.computes);
            is_new
        });
        is_new
    }

    fn change(&self, change: impl FnOnce(&mut State) -> bool) {
        let is_changed = change(&mut self.lock());
        if is_changed {
            self.changed.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Makes open questions request again: a list of the watch may be older than earlier answers.
    fn ask_again(&mut self) {
        self.listed = 0;
        self.looked.clear();
    }

    fn put(&mut self, workflow: Workflow) -> bool {
        let key = workflow.key();
        let is_new = self.workflows.get(&key).is_none_or(|known| {
            **known != workflow && !precedes(&workflow.resource_version, &known.resource_version)
        });
        if is_new {
            self.workflows.insert(key, Arc::new(workflow));
        }
        is_new
    }

    fn put_computes(&mut self, key: WorkflowKey, computes: Computes) -> bool {
        let is_new = self.computes.get(&key).is_none_or(|known| {
            *known != computes && !precedes(&computes.resource_version, &known.resource_version)
        });
        if is_new {
            self.computes.insert(key, computes);
        }
        is_new
    }

    fn take_look(&mut self) -> Option<Look> {
        if !std::mem::take(&mut self.wants_list) {
            return None;
        }
        self.looked.retain(|key, _| self.workflows.contains_key(key));
        Some(Look { upto: self.questions, computes: std::mem::take(&mut self.wants_computes) })
    }

    /// Returns the answer, and whether a request to the API may give a better one.
    fn answer(&mut self, job: &JobName, node: &str, ticket: Ticket) -> (JobState, bool) {
        let matching = self.workflows.values().filter(|known| known.identity().matches(job));
        let matching: Vec<_> = matching.cloned().collect();
        // A requeued job may have a Workflow that is being deleted: the question is about the other one.
        let living: Vec<_> =
            matching.iter().filter(|known| !known.state.deleting).cloned().collect();
        match if living.is_empty() { matching } else { living }.as_slice() {
            [] if self.listed >= ticket.0 => (unknown(job), false),
            [] => {
                self.wants_list = true;
                (self.uncertain(), true)
            }
            [workflow] => self.answer_about(workflow, node, ticket),
            several => (ambiguous(job, several), false),
        }
    }

    fn answer_about(
        &mut self,
        workflow: &Workflow,
        node: &str,
        ticket: Ticket,
    ) -> (JobState, bool) {
        let key = workflow.key();
        let computes = self.computes.get(&key).map(|computes| &computes.names);
        if computes.is_some_and(|names| names.contains(node)) {
            return (known(workflow, Assignment::Assigned), false);
        }
        if !has_reached(&workflow.state.desired_state, PRE_RUN) {
            return (known(workflow, Assignment::Unassigned), false);
        }
        if self.looked.get(&key).is_some_and(|looked| *looked >= ticket.0) {
            return (known(workflow, Assignment::AssignedToOthers), false);
        }
        self.wants_list = true;
        self.wants_computes.insert(key);
        (self.uncertain(), true)
    }

    fn uncertain(&self) -> JobState {
        let why = self.failing.clone();
        let why = why.unwrap_or_else(|| "the API is being asked for the Workflow".to_owned());
        JobState { knowledge: Knowledge::Uncertain.into(), why, ..JobState::default() }
    }
}

/// The prolog for Flux recognises this text.
fn unknown(job: &JobName) -> JobState {
    let why = format!("no Workflow is that of {}", describe(job));
    JobState { knowledge: Knowledge::Unknown.into(), why, ..JobState::default() }
}

fn ambiguous(job: &JobName, several: &[Arc<Workflow>]) -> JobState {
    let names: Vec<_> = several
        .iter()
        .map(|workflow| format!("{}/{}", workflow.state.namespace, workflow.state.workflow))
        .collect();
    let why = format!("{} matches the Workflows {}", describe(job), names.join(", "));
    JobState { knowledge: Knowledge::Ambiguous.into(), why, ..JobState::default() }
}

fn known(workflow: &Workflow, assignment: Assignment) -> JobState {
    JobState { assignment: assignment.into(), ..workflow.state.clone() }
}

#[cfg(test)]
mod tests;
