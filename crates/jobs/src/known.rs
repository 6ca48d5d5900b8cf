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

/// The state in which a Workflow's mounts are made; before this state, Computes may still be missing.
const PRE_RUN: &str = "PreRun";

/// Number of a question; later questions have higher numbers. A list that was requested after the question was opened
/// answers the question for certain.
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
    /// Number of the newest question that was opened before the last list of all Workflows was requested. For questions
    /// up to this number, a job that is not in `workflows` does not exist.
    listed: u64,
    /// By Workflow: number of the newest question that was opened before the Workflow's Computes were last read. For
    /// questions up to this number, a node that is not in `computes` is not one of the job's nodes.
    computes_read: BTreeMap<WorkflowKey, u64>,
    /// Whether a question waits for a list of all Workflows.
    wants_list: bool,
    /// Workflows whose Computes a question waits for.
    wants_computes: BTreeSet<WorkflowKey>,
    /// The reason why the API does not answer; `None` while the API answers.
    failing: Option<String>,
}

/// A request to the API for all Workflows, and for the Computes of some Workflows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListRequest {
    /// Number of the newest question at the time of the request.
    newest_question: u64,
    pub(crate) computes: BTreeSet<WorkflowKey>,
}

impl Jobs {
    /// Registers a question, and returns its number.
    pub fn register_question(&self) -> Ticket {
        let mut state = self.lock();
        state.questions += 1;
        Ticket(state.questions)
    }

    /// Returns a receiver that is notified whenever an answer may have changed.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Returns the known state of a job on a node, except the state of the node's ClientMounts. Requests missing
    /// objects from the API.
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
            state.forget_certain_answers();
            true
        });
    }

    /// Stores the Computes of a Workflow, unless a newer version is known.
    pub fn apply_computes(&self, key: WorkflowKey, computes: Computes) {
        self.change(|state| state.put_computes(key, computes));
    }

    /// Removes the Computes of a Workflow after the deletion of that Computes object.
    pub fn remove_computes(&self, key: &WorkflowKey) {
        self.change(|state| {
            state.computes_read.remove(key);
            state.computes.remove(key).is_some()
        });
    }

    /// Replaces all Computes by a list of the watch.
    pub fn replace_computes(&self, computes: BTreeMap<WorkflowKey, Computes>) {
        self.change(|state| {
            state.computes = computes;
            state.forget_certain_answers();
            true
        });
    }

    /// Waits for a question that needs a request, and returns the request.
    pub(crate) async fn next_request(&self) -> ListRequest {
        loop {
            if let Some(request) = self.lock().take_request() {
                return request;
            }
            self.wanted.notified().await;
        }
    }

    /// Stores the API's answer to a request: all Workflows, and the Computes of some Workflows.
    pub(crate) fn request_answered(
        &self,
        request: &ListRequest,
        workflows: Vec<Workflow>,
        computes: BTreeMap<WorkflowKey, Option<Computes>>,
    ) {
        self.change(|state| {
            // Workflows that are not in the list are kept: the watch may know newer Workflows.
            for workflow in workflows {
                state.put(workflow);
            }
            state.listed = state.listed.max(request.newest_question);
            for (key, found) in computes {
                match found {
                    Some(found) => drop(state.put_computes(key.clone(), found)),
                    None => drop(state.computes.remove(&key)),
                }
                state.computes_read.insert(key, request.newest_question);
            }
            state.failing = None;
            true
        });
    }

    /// Records that the API did not answer, and queues the request again. Returns whether the reason is new.
    pub(crate) fn request_failed(&self, request: ListRequest, why: String) -> bool {
        let mut is_new = false;
        self.change(|state| {
            is_new = state.failing.as_ref() != Some(&why);
            state.failing = Some(why);
            state.wants_list = true;
            state.wants_computes.extend(request.computes);
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
    /// Makes open questions request lists again: a list that the watch delivers, which replaces the stored objects, may
    /// lack Workflows and Computes that a requested list had.
    fn forget_certain_answers(&mut self) {
        self.listed = 0;
        self.computes_read.clear();
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

    fn take_request(&mut self) -> Option<ListRequest> {
        if !std::mem::take(&mut self.wants_list) {
            return None;
        }
        self.computes_read.retain(|key, _| self.workflows.contains_key(key));
        Some(ListRequest {
            newest_question: self.questions,
            computes: std::mem::take(&mut self.wants_computes),
        })
    }

    /// Returns the answer, and whether a request to the API may give a better answer.
    fn answer(&mut self, job: &JobName, node: &str, ticket: Ticket) -> (JobState, bool) {
        let matching = self.workflows.values().filter(|known| known.identity().matches(job));
        let matching: Vec<_> = matching.cloned().collect();
        // A requeued job may have an old Workflow that is being deleted: the question is about the new Workflow.
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
        if self.computes_read.get(&key).is_some_and(|computes_read| *computes_read >= ticket.0) {
            return (known(workflow, Assignment::AssignedToOthers), false);
        }
        self.wants_list = true;
        self.wants_computes.insert(key);
        (self.uncertain(), true)
    }

    fn uncertain(&self) -> JobState {
        let why = self.failing.clone();
        let why = why.unwrap_or_else(|| "the Workflow is being read from the API".to_owned());
        JobState { knowledge: Knowledge::Uncertain.into(), why, ..JobState::default() }
    }
}

/// Returns the answer that no Workflow belongs to the job. The prolog for Flux recognises the answer's text.
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
