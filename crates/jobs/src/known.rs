//! All Workflows and Computes, and what they say of a job on a node.
//!
//! Every method takes one lock and returns; nothing waits inside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use controller::precedes;
use proto::v1::job_state::{Assignment, Knowledge};
use proto::v1::{JobName, JobState};
use tokio::sync::{Notify, watch};

use crate::name::shown;
use crate::workflow::{Computes, Workflow, WorkflowKey, has_reached};

/// The state in which a Workflow's mounts are made; before it the Computes may still be missing.
const PRE_RUN: &str = "PreRun";

/// When a question was opened: what the API answers to a list requested after that is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// Shared by the watches, the task that requests lists, and the nodes' sessions.
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
    /// Questions up to this one were followed by a list of all Workflows.
    listed: u64,
    /// And by a look at the Computes of this Workflow.
    looked: BTreeMap<WorkflowKey, u64>,
    /// What somebody waits for.
    wants_list: bool,
    wants_computes: BTreeSet<WorkflowKey>,
    /// Why the API does not answer.
    failing: Option<String>,
}

/// What is to be requested from the API.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Look {
    upto: u64,
    pub(crate) computes: BTreeSet<WorkflowKey>,
}

impl Jobs {
    pub fn ask(&self) -> Ticket {
        let mut state = self.lock();
        state.questions += 1;
        Ticket(state.questions)
    }

    /// Returns what changes whenever an answer may be another.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// What is known of a job on a node, without its ClientMounts. What is missing is requested from the API.
    pub fn state(&self, job: &JobName, node: &str, ticket: Ticket) -> JobState {
        let mut state = self.lock();
        let (answer, is_wanted) = state.answer(job, node, ticket);
        drop(state);
        if is_wanted {
            self.wanted.notify_one();
        }
        answer
    }

    /// Takes in a Workflow, unless a newer reading of it is known.
    pub fn apply_workflow(&self, workflow: Workflow) {
        self.change(|state| state.put(workflow));
    }

    /// A Workflow is no more.
    pub fn remove_workflow(&self, key: &WorkflowKey, uid: &str) {
        self.change(|state| {
            let is_this = state.workflows.get(key).is_some_and(|known| known.state.uid == uid);
            is_this && state.workflows.remove(key).is_some()
        });
    }

    /// Takes in all Workflows, as a list answered.
    pub fn replace_workflows(&self, workflows: Vec<Workflow>) {
        self.change(|state| {
            state.workflows = workflows.into_iter().map(|one| (one.key(), Arc::new(one))).collect();
            state.ask_again();
            true
        });
    }

    /// Takes in the Computes of a Workflow.
    pub fn apply_computes(&self, key: WorkflowKey, computes: Computes) {
        self.change(|state| state.put_computes(key, computes));
    }

    /// A Workflow has no Computes any more.
    pub fn remove_computes(&self, key: &WorkflowKey) {
        self.change(|state| {
            state.looked.remove(key);
            state.computes.remove(key).is_some()
        });
    }

    /// Takes in all Computes, as a list answered.
    pub fn replace_computes(&self, computes: BTreeMap<WorkflowKey, Computes>) {
        self.change(|state| {
            state.computes = computes;
            state.ask_again();
            true
        });
    }

    /// What is to be requested from the API next; waits for a question that needs it.
    pub(crate) async fn wanted(&self) -> Look {
        loop {
            if let Some(look) = self.lock().take_look() {
                return look;
            }
            self.wanted.notified().await;
        }
    }

    /// The API answered a look: with all Workflows, then with the Computes of some.
    pub(crate) fn looked(
        &self,
        look: &Look,
        workflows: Vec<Workflow>,
        computes: BTreeMap<WorkflowKey, Option<Computes>>,
    ) {
        self.change(|state| {
            // What the list lacks is left to the watch, which may know of what was made since.
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

    /// The API did not answer; the request is repeated. Returns whether the reason is new.
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
    /// A list of the watch may be older than what questions were answered with since: those that are open ask once more.
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

    /// The answer, and whether the API is needed for a better one.
    fn answer(&mut self, job: &JobName, node: &str, ticket: Ticket) -> (JobState, bool) {
        let meant = self.workflows.values().filter(|known| known.identity().is(job));
        let meant: Vec<_> = meant.cloned().collect();
        // A job that was requeued: what is on its way out is not what is meant.
        let living: Vec<_> = meant.iter().filter(|known| !known.state.deleting).cloned().collect();
        match if living.is_empty() { meant } else { living }.as_slice() {
            [] if self.listed >= ticket.0 => (unknown(job), false),
            [] => {
                self.wants_list = true;
                (self.uncertain(), true)
            }
            [one] => self.known(one, node, ticket),
            several => (ambiguous(job, several), false),
        }
    }

    fn known(&mut self, workflow: &Workflow, node: &str, ticket: Ticket) -> (JobState, bool) {
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
        let why = why.unwrap_or_else(|| "the API is being asked for it".to_owned());
        JobState { knowledge: Knowledge::Uncertain.into(), why, ..JobState::default() }
    }
}

fn unknown(job: &JobName) -> JobState {
    let why = format!("no Workflow is that of {}", shown(job));
    JobState { knowledge: Knowledge::Unknown.into(), why, ..JobState::default() }
}

fn ambiguous(job: &JobName, several: &[Arc<Workflow>]) -> JobState {
    let names: Vec<_> = several
        .iter()
        .map(|one| format!("{}/{}", one.state.namespace, one.state.workflow))
        .collect();
    let why = format!("{} fits the Workflows {}", shown(job), names.join(", "));
    JobState { knowledge: Knowledge::Ambiguous.into(), why, ..JobState::default() }
}

fn known(workflow: &Workflow, assignment: Assignment) -> JobState {
    JobState { assignment: assignment.into(), ..workflow.state.clone() }
}

#[cfg(test)]
mod tests;
