//! Whether a job's mounts are where a script wants them. Pure.
//!
//! Both sources must agree: what the API stores, by the coordinator's answer, and what the agent did, by its own view. While one of
//! them says nothing, nothing counts as done.

use api::{ClientMountStatus, ErrorType, Severity, client_mount::MountState};
use jobs::{has_reached, missing, shown};
use proto::v1::{
    JobMount, JobName, JobState, Verdict,
    job_state::{Knowledge, Place},
};

use super::lines::NOT_RECEIVED;
use crate::view::{Activity, Viewed};
use agent::{desired, reconcile::Outcome};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Mounted.
    Mounted {
        /// Whether the job's environment must be published too.
        with_env: bool,
        /// Whether the job's other nodes are waited for.
        all_nodes: bool,
    },
    /// Unmounted, with their devices free.
    Unmounted,
}

/// What the judgement rests on.
#[derive(Debug)]
pub struct Evidence<'a> {
    pub job: &'a JobName,
    /// The coordinator's answer; `None` while there is none.
    pub state: Option<&'a JobState>,
    pub connected: bool,
    /// The job's objects by uid, as the agent knows them.
    pub seen: &'a [(String, Viewed)],
    pub activity: Activity,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// As wanted; the text says why, where there was nothing to do.
    Done(String),
    /// Not yet, with the verdict for the end of the deadline.
    Waiting(Verdict, String),
    /// Not before something changes. It is reported once it has lasted for a moment.
    Failing(Verdict, String),
    /// Never: verdict, reason and remedy.
    Over(Verdict, String, &'static str),
}

const NAME_WORKFLOW: &str = "name it with --workflow NAMESPACE/NAME";
const IS_OVER: &str = "a job that is over mounts nothing any more";

pub fn judge(goal: Goal, evidence: &Evidence<'_>) -> Judged {
    let Some(state) = evidence.state else {
        let why = if evidence.connected {
            "the coordinator has not answered yet"
        } else {
            "no connection to the coordinator"
        };
        return Judged::Waiting(Verdict::Unreachable, why.to_owned());
    };
    match (state.knowledge(), goal) {
        (Knowledge::Ambiguous, _) => {
            Judged::Over(Verdict::BadRequest, state.why.clone(), NAME_WORKFLOW)
        }
        (Knowledge::Uncertain, _) => Judged::Waiting(Verdict::Unreachable, state.why.clone()),
        (Knowledge::Unspecified, _) => {
            let why = "the coordinator's answer is not understood: is it older than this agent?";
            Judged::Waiting(Verdict::Unreachable, why.to_owned())
        }
        (Knowledge::Unknown, Goal::Mounted { .. }) => Judged::Done(state.why.clone()),
        (Knowledge::Known, Goal::Mounted { with_env, all_nodes }) => {
            mounted(state, evidence, with_env, all_nodes)
        }
        (Knowledge::Unknown, Goal::Unmounted) => unmounted(state, evidence),
        (Knowledge::Known, Goal::Unmounted) if is_over(state) => unmounted(state, evidence),
        (Knowledge::Known, Goal::Unmounted) => not_over(state, evidence),
    }
}

/// Whether the job's mounts are to be unmounted.
fn is_over(state: &JobState) -> bool {
    state.deleting || has_reached(&state.desired_state, "PostRun")
}

fn stage(state: &JobState) -> String {
    let JobState { workflow, desired_state, status, message, .. } = state;
    let mut text = format!("Workflow {workflow} is asked for {desired_state}");
    for more in [status, message].into_iter().filter(|more| !more.is_empty()) {
        text.push_str(", ");
        text.push_str(more);
    }
    text
}

fn mounted(state: &JobState, evidence: &Evidence<'_>, with_env: bool, all_nodes: bool) -> Judged {
    if is_over(state) {
        let why = if state.deleting { "being deleted" } else { &state.desired_state };
        let why = format!("{} is over: Workflow {} is {why}", shown(evidence.job), state.workflow);
        return Judged::Over(Verdict::Cancelled, why, IS_OVER);
    }
    if state.directives.is_empty() {
        return Judged::Done(format!("Workflow {} gives computes no storage", state.workflow));
    }
    let not_yet = |why: String| Judged::Waiting(Verdict::NotYet, why);
    let judged = match state.place() {
        Place::Elsewhere => {
            let why = format!("this node is none of the computes of Workflow {}", state.workflow);
            return Judged::Done(why);
        }
        Place::Unassigned | Place::Unspecified => {
            not_yet(format!("{}: its computes are not named yet", stage(state)))
        }
        Place::Here => {
            match missing(&state.directives, state.mounts.iter().map(|mount| mount.directive))
                .first()
            {
                Some(first) => not_yet(format!(
                    "{}: no ClientMount yet for directive {}, {}",
                    stage(state),
                    first.index,
                    first.text
                )),
                None => all(&state.mounts, |mount| one_mounted(mount, evidence))
                    .or_else(|| elsewhere(state, all_nodes))
                    .unwrap_or_else(|| environment(state, with_env)),
            }
        }
    };
    match judged {
        Judged::Waiting(_, why) if state.status == "Error" => {
            Judged::Failing(Verdict::StorageFault, why)
        }
        other => other,
    }
}

/// The first mount that is not as wanted, failures first.
fn all(mounts: &[JobMount], judge: impl Fn(&JobMount) -> Option<Judged>) -> Option<Judged> {
    let mut open: Vec<_> = mounts.iter().filter_map(judge).collect();
    open.sort_by_key(|judged| match judged {
        Judged::Over(..) => 0,
        Judged::Failing(..) => 1,
        Judged::Waiting(Verdict::NodeFault | Verdict::StorageFault, _) => 2,
        Judged::Waiting(..) | Judged::Done(_) => 3,
    });
    open.into_iter().next()
}

fn one_mounted(mount: &JobMount, evidence: &Evidence<'_>) -> Option<Judged> {
    let name = format!("ClientMount {}", mount.name);
    let not_yet = |why: String| Some(Judged::Waiting(Verdict::NotYet, why));
    if mount.deleting || mount.desired_state != "mounted" {
        return not_yet(format!("{name} asks for nothing to be mounted"));
    }
    match working(mount, evidence) {
        Ok(outcome) if outcome.goal != desired::Goal::Mounted => {
            not_yet(format!("{name} was changed, and the agent has not looked again"))
        }
        Ok(outcome) if outcome.done() => {
            let stored = is_stored(mount, &MountState::Mounted);
            if stored { None } else { not_yet(format!("{name}: the API does not say so yet")) }
        }
        Ok(outcome) => Some(failed(&name, outcome)),
        Err(why) => not_yet(format!("{name}: {why}")),
    }
}

/// The outcome of the agent's last pass on what the API asks now, or what is waited for before.
fn working<'a>(mount: &JobMount, evidence: &'a Evidence<'_>) -> Result<&'a Outcome, &'static str> {
    let seen = evidence.seen.iter().find(|(uid, _)| *uid == mount.uid);
    let (_, seen) = seen.ok_or(NOT_RECEIVED)?;
    seen.outcome.as_ref().ok_or("in progress")
}

fn failed(name: &str, outcome: &Outcome) -> Judged {
    let texts: Vec<_> =
        outcome.failures.iter().map(|failed| failed.failure.debug.as_str()).collect();
    let why = format!("{name}: {}", texts.join("; "));
    let failures = || outcome.failures.iter().map(|failed| &failed.failure);
    // Minor failures end by themselves. When all others are faults of the object or of the workload manager, none is the node's.
    let lasting = || failures().filter(|failure| failure.severity != Severity::Minor);
    let verdict = if lasting().next().is_none() {
        Verdict::NotYet
    } else if lasting().all(|failure| failure.error_type != ErrorType::Internal) {
        Verdict::StorageFault
    } else {
        Verdict::NodeFault
    };
    if failures().any(|failure| failure.severity == Severity::Fatal) {
        Judged::Failing(verdict, why)
    } else {
        Judged::Waiting(verdict, why)
    }
}

/// Whether the API has the node's report that everything is in this state.
fn is_stored(mount: &JobMount, state: &MountState) -> bool {
    let status: Option<ClientMountStatus> = serde_json::from_slice(&mount.status).ok();
    status.is_some_and(|status| {
        status.all_ready
            && status.error.is_none()
            && status.mounts.iter().all(|mount| mount.ready && mount.state == *state)
    })
}

/// What the job's other nodes have not mounted yet, when that matters: PreRun is ready once all have.
fn elsewhere(state: &JobState, all_nodes: bool) -> Option<Judged> {
    let is_everywhere = state.state == "PreRun" && state.ready;
    (all_nodes && !is_everywhere).then(|| {
        let why = format!("{}: not every node of the job has mounted yet", stage(state));
        Judged::Waiting(Verdict::NotYet, why)
    })
}

/// Of each directive with a name the path is published, once the controllers have made its mounts.
fn environment(state: &JobState, with_env: bool) -> Judged {
    let done = Judged::Done(String::new());
    if !with_env {
        return done;
    }
    let lacks = state.directives.iter().find_map(|directive| {
        let mut words = directive.text.split_whitespace().skip(1);
        let prefix = if words.next()? == "persistentdw" { "DW_PERSISTENT_" } else { "DW_JOB_" };
        let name = words.find_map(|word| word.strip_prefix("name="))?;
        let variable = format!("{prefix}{}", name.replace('-', "_"));
        (!state.env.contains_key(&variable)).then_some(variable)
    });
    lacks.map_or(done, |variable| {
        let why = format!("{}: it does not publish {variable} yet", stage(state));
        Judged::Waiting(Verdict::NotYet, why)
    })
}

/// The judgement on an unmount of a job that nobody has ended: its mounts may still come.
fn not_over(state: &JobState, evidence: &Evidence<'_>) -> Judged {
    let has_none = state.mounts.is_empty() && evidence.seen.is_empty();
    if has_none && (state.directives.is_empty() || state.place() == Place::Elsewhere) {
        return Judged::Done(format!("Workflow {} has no mounts on this node", state.workflow));
    }
    let why = format!("{}: nobody has asked for PostRun or Teardown", stage(state));
    Judged::Waiting(Verdict::NotYet, why)
}

fn unmounted(state: &JobState, evidence: &Evidence<'_>) -> Judged {
    if let Some(open) = all(&state.mounts, |mount| one_unmounted(mount, evidence)) {
        return open;
    }
    let gone =
        evidence.seen.iter().filter(|(uid, _)| state.mounts.iter().all(|mount| mount.uid != *uid));
    for (_, seen) in gone {
        let name = format!("ClientMount {}, which is deleted", seen.received.name);
        match &seen.outcome {
            Some(outcome) if outcome.done() => {}
            Some(outcome) => return failed(&name, outcome),
            None => return Judged::Waiting(Verdict::NotYet, format!("{name}: in progress")),
        }
        if !seen.gone {
            return Judged::Waiting(
                Verdict::NotYet,
                format!("{name}: the agent does not know that yet"),
            );
        }
    }
    let is_certain = !state.mounts.is_empty() || evidence.activity.cleaned_up;
    if !is_certain {
        let why = "the agent looks for mounts that no object asks for";
        return Judged::Waiting(Verdict::NotYet, why.to_owned());
    }
    Judged::Done(state.why.clone())
}

fn one_unmounted(mount: &JobMount, evidence: &Evidence<'_>) -> Option<Judged> {
    let name = format!("ClientMount {}", mount.name);
    let not_yet = |why: String| Some(Judged::Waiting(Verdict::NotYet, why));
    if mount.desired_state != "unmounted" && !mount.deleting {
        return not_yet(format!("{name} is not asked to be unmounted yet"));
    }
    // No agent may mount what does not carry the finalizer.
    if !mount.held && mount.deleting {
        return None;
    }
    match working(mount, evidence) {
        Ok(outcome) if outcome.goal != desired::Goal::Unmounted => {
            not_yet(format!("{name} was changed, and the agent has not looked again"))
        }
        Ok(outcome) if outcome.done() => {
            let stored = !mount.deleting && is_stored(mount, &MountState::Unmounted);
            if stored { None } else { not_yet(format!("{name}: the API does not say so yet")) }
        }
        Ok(outcome) => Some(failed(&name, outcome)),
        Err(why) => not_yet(format!("{name}: {why}")),
    }
}

#[cfg(test)]
mod tests;
