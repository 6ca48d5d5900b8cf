//! Judges whether a job's mounts have reached the state that a script waits for. Pure.
//!
//! Two sources must agree: the coordinator's answer, which says what the API stores, and the agent's view, which says
//! what the agent did. While one of these sources is missing, no goal counts as reached.

mod mount;

use jobs::{describe, directives_without_mount, has_reached};
use proto::v1::{
    JobMount, JobName, JobState, Verdict,
    job_state::{Assignment, Knowledge},
};

use crate::view::{Activity, Viewed};

/// The state of a job's mounts that a script waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// All mounts of the job are mounted.
    Mounted {
        /// True if the script also waits until the controllers have published the job's environment.
        with_env: bool,
        /// True if the script also waits for the mounts on the job's other nodes.
        all_nodes: bool,
    },
    /// All mounts of the job are unmounted, and their devices are free.
    Unmounted,
}

/// The evidence for the judgement.
#[derive(Debug)]
pub struct Evidence<'a> {
    pub job: &'a JobName,
    /// The coordinator's answer; `None` while there is none.
    pub state: Option<&'a JobState>,
    /// Whether a coordinator has accepted the agent's connection.
    pub connected: bool,
    /// The job's objects by uid, as the agent knows them.
    pub viewed: &'a [(String, Viewed)],
    pub activity: Activity,
}

/// The judgement on a goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The goal is reached. If there was nothing to do, the text says why.
    Done(String),
    /// The goal is not reached yet. Holds the reason for the wait, and the verdict for the case that the goal is not
    /// reached by the deadline.
    Waiting(Verdict, String),
    /// The goal will not be reached before an administrator or a controller changes something. The verb reports this
    /// judgement once it has lasted for some seconds.
    Failing(Verdict, String),
    /// The goal will never be reached: verdict, reason and remedy.
    Impossible(Verdict, String, &'static str),
}

const NAME_WORKFLOW: &str = "name it with --workflow NAMESPACE/NAME";
const IS_OVER: &str = "a job that is over mounts nothing any more";

pub fn judge(goal: Goal, evidence: &Evidence<'_>) -> Judgement {
    let Some(state) = evidence.state else {
        let why = if evidence.connected {
            "the coordinator has not answered yet"
        } else {
            "no connection to the coordinator"
        };
        return Judgement::Waiting(Verdict::Unreachable, why.to_owned());
    };
    match (state.knowledge(), goal) {
        (Knowledge::Ambiguous, _) => {
            Judgement::Impossible(Verdict::BadRequest, state.why.clone(), NAME_WORKFLOW)
        }
        (Knowledge::Uncertain, _) => Judgement::Waiting(Verdict::Unreachable, state.why.clone()),
        (Knowledge::Unspecified, _) => {
            let why = "the agent does not understand the coordinator's answer: install the agent's version of Warren on the coordinator";
            Judgement::Waiting(Verdict::Unreachable, why.to_owned())
        }
        (Knowledge::Unknown, Goal::Mounted { .. }) => Judgement::Done(state.why.clone()),
        (Knowledge::Known, Goal::Mounted { with_env, all_nodes }) => {
            judge_mount(state, evidence, with_env, all_nodes)
        }
        (Knowledge::Unknown, Goal::Unmounted) => judge_unmount(state, evidence),
        (Knowledge::Known, Goal::Unmounted) if is_over(state) => judge_unmount(state, evidence),
        (Knowledge::Known, Goal::Unmounted) => not_over(state, evidence),
    }
}

/// Returns whether the job has ended, so that its mounts are to be unmounted.
fn is_over(state: &JobState) -> bool {
    state.deleting || has_reached(&state.desired_state, "PostRun")
}

/// Describes the Workflow's state.
fn workflow_state(state: &JobState) -> String {
    let JobState { workflow, desired_state, status, message, .. } = state;
    let mut text = format!("Workflow {workflow} is to reach {desired_state}");
    for more in [status, message].into_iter().filter(|more| !more.is_empty()) {
        text.push_str(", ");
        text.push_str(more);
    }
    text
}

fn judge_mount(
    state: &JobState,
    evidence: &Evidence<'_>,
    with_env: bool,
    all_nodes: bool,
) -> Judgement {
    if is_over(state) {
        let why = if state.deleting { "being deleted" } else { &state.desired_state };
        let why =
            format!("{} is over: Workflow {} is {why}", describe(evidence.job), state.workflow);
        return Judgement::Impossible(Verdict::Cancelled, why, IS_OVER);
    }
    if state.directives.is_empty() {
        return Judgement::Done(format!("Workflow {} gives computes no storage", state.workflow));
    }
    let judgement = match state.assignment() {
        Assignment::AssignedToOthers => {
            let why = format!("this node is none of the computes of Workflow {}", state.workflow);
            return Judgement::Done(why);
        }
        Assignment::Unassigned | Assignment::Unspecified => {
            not_yet(format!("{}: its computes are not named yet", workflow_state(state)))
        }
        Assignment::Assigned => {
            match directives_without_mount(
                &state.directives,
                state.mounts.iter().map(|mount| mount.directive),
            )
            .first()
            {
                Some(first) => not_yet(format!(
                    "{}: no ClientMount yet for directive {}, {}",
                    workflow_state(state),
                    first.index,
                    first.text
                )),
                None => first_open(&state.mounts, |mount| mount::judge_mounted(mount, evidence))
                    .or_else(|| other_nodes(state, all_nodes))
                    .unwrap_or_else(|| environment(state, with_env)),
            }
        }
    };
    match judgement {
        Judgement::Waiting(_, why) if state.status == "Error" => {
            Judgement::Failing(Verdict::StorageFault, why)
        }
        other => other,
    }
}

/// Returns the worst judgement of all mounts that have not reached the goal; `None` if all mounts have reached it.
fn first_open(
    mounts: &[JobMount],
    judge: impl Fn(&JobMount) -> Option<Judgement>,
) -> Option<Judgement> {
    let mut open: Vec<_> = mounts.iter().filter_map(judge).collect();
    open.sort_by_key(|judgement| match judgement {
        Judgement::Impossible(..) => 0,
        Judgement::Failing(..) => 1,
        Judgement::Waiting(Verdict::NodeFault | Verdict::StorageFault, _) => 2,
        Judgement::Waiting(..) | Judgement::Done(_) => 3,
    });
    open.into_iter().next()
}

/// Judges the job's other nodes, if the script waits for them and a node has not mounted yet. PreRun is ready once
/// all nodes have mounted.
fn other_nodes(state: &JobState, all_nodes: bool) -> Option<Judgement> {
    let is_everywhere = state.state == "PreRun" && state.ready;
    (all_nodes && !is_everywhere).then(|| {
        let why = format!("{}: not every node of the job has mounted yet", workflow_state(state));
        not_yet(why)
    })
}

/// Judges the job's environment, if the script waits for it. The controllers publish the path of each directive that
/// has a name, once they have made the directive's mounts.
fn environment(state: &JobState, with_env: bool) -> Judgement {
    let done = Judgement::Done(String::new());
    if !with_env {
        return done;
    }
    let missing = state.directives.iter().find_map(|directive| {
        let mut words = directive.text.split_whitespace().skip(1);
        let prefix = if words.next()? == "persistentdw" { "DW_PERSISTENT_" } else { "DW_JOB_" };
        let name = words.find_map(|word| word.strip_prefix("name="))?;
        let variable = format!("{prefix}{}", name.replace('-', "_"));
        (!state.env.contains_key(&variable)).then_some(variable)
    });
    missing.map_or(done, |variable| {
        let why = format!("{}: it does not publish {variable} yet", workflow_state(state));
        not_yet(why)
    })
}

/// Judges an unmount of a job that has not ended: new ClientMounts of the job may still be created.
fn not_over(state: &JobState, evidence: &Evidence<'_>) -> Judgement {
    let has_none = state.mounts.is_empty() && evidence.viewed.is_empty();
    if has_none
        && (state.directives.is_empty() || state.assignment() == Assignment::AssignedToOthers)
    {
        return Judgement::Done(format!("Workflow {} has no mounts on this node", state.workflow));
    }
    let why = format!("{}: neither PostRun nor Teardown is requested yet", workflow_state(state));
    not_yet(why)
}

fn judge_unmount(state: &JobState, evidence: &Evidence<'_>) -> Judgement {
    if let Some(open) = first_open(&state.mounts, |mount| mount::judge_unmounted(mount, evidence)) {
        return open;
    }
    let deleted = evidence
        .viewed
        .iter()
        .filter(|(uid, _)| state.mounts.iter().all(|mount| mount.uid != *uid));
    for (_, viewed) in deleted {
        let name = format!("ClientMount {}, which is deleted", viewed.received.name);
        match &viewed.outcome {
            Some(outcome) if outcome.is_done() => {}
            Some(outcome) => return mount::judge_failure(&name, outcome),
            None => return not_yet(format!("{name}: in progress")),
        }
        if !viewed.gone {
            return not_yet(format!("{name}: the agent has not received the deletion yet"));
        }
    }
    let is_certain = !state.mounts.is_empty() || evidence.activity.cleaned_up;
    if !is_certain {
        let why = "the clean-up of unwanted mounts has not ended yet";
        return not_yet(why.to_owned());
    }
    Judgement::Done(state.why.clone())
}

fn not_yet(why: String) -> Judgement {
    Judgement::Waiting(Verdict::NotYet, why)
}

#[cfg(test)]
mod tests;
