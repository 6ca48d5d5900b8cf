//! Judges whether one ClientMount of the job has reached its goal.

use agent::{desired, reconcile::Outcome};
use api::{ClientMountStatus, ErrorType, Severity, client_mount::MountState};
use proto::v1::{JobMount, Verdict};

use super::{Evidence, Judgement, not_yet};
use crate::job::lines::NOT_RECEIVED;

/// Returns the outcome of the agent's last pass on this object; if there is no outcome yet, the reason.
fn last_outcome<'a>(
    mount: &JobMount,
    evidence: &'a Evidence<'_>,
) -> Result<&'a Outcome, &'static str> {
    let viewed = evidence.viewed.iter().find(|(uid, _)| *uid == mount.uid);
    let (_, viewed) = viewed.ok_or(NOT_RECEIVED)?;
    viewed.outcome.as_ref().ok_or("in progress")
}

pub(super) fn judge_failure(name: &str, outcome: &Outcome) -> Judgement {
    let texts: Vec<_> =
        outcome.failures.iter().map(|failed| failed.failure.debug.as_str()).collect();
    let why = format!("{name}: {}", texts.join("; "));
    let failures = || outcome.failures.iter().map(|failed| &failed.failure);
    // Minor failures end by themselves and do not count. If one of the other failures is an internal one, the verdict
    // is `NodeFault`: neither the object nor the workload manager causes internal failures.
    let lasting = || failures().filter(|failure| failure.severity != Severity::Minor);
    let verdict = if lasting().next().is_none() {
        Verdict::NotYet
    } else if lasting().all(|failure| failure.error_type != ErrorType::Internal) {
        Verdict::StorageFault
    } else {
        Verdict::NodeFault
    };
    if failures().any(|failure| failure.severity == Severity::Fatal) {
        Judgement::Failing(verdict, why)
    } else {
        Judgement::Waiting(verdict, why)
    }
}

/// Returns whether the API has the node's report that all of the object's mounts, `mounts` in number,
/// are in this state.
fn is_stored(mount: &JobMount, state: &MountState, mounts: usize) -> bool {
    let status: Option<ClientMountStatus> = serde_json::from_slice(&mount.status).ok();
    status.is_some_and(|status| status.has_reached(state, mounts))
}

pub(super) fn judge_unmounted(mount: &JobMount, evidence: &Evidence<'_>) -> Option<Judgement> {
    if mount.desired_state != "unmounted" && !mount.deleting {
        return Some(not_yet(format!(
            "the desired state of ClientMount {} is not unmounted yet",
            mount.name
        )));
    }
    // A deleted object without the finalizer is unmounted: an agent removes the finalizer only after the unmount, and
    // mounts no object without it.
    if !mount.held && mount.deleting {
        return None;
    }
    judge_mount(mount, evidence, desired::Goal::Unmounted)
}

pub(super) fn judge_mounted(mount: &JobMount, evidence: &Evidence<'_>) -> Option<Judgement> {
    if mount.deleting || mount.desired_state != "mounted" {
        return Some(not_yet(format!(
            "ClientMount {} is being deleted, or its desired state is unmounted",
            mount.name
        )));
    }
    judge_mount(mount, evidence, desired::Goal::Mounted)
}

/// Judges a mount that is to reach this goal; returns `None` once the mount has reached it.
fn judge_mount(
    mount: &JobMount,
    evidence: &Evidence<'_>,
    goal: desired::Goal,
) -> Option<Judgement> {
    let name = format!("ClientMount {}", mount.name);
    let why = match last_outcome(mount, evidence) {
        Ok(outcome) if outcome.goal != goal => {
            format!("{name} was changed, and the agent has not worked on the change yet")
        }
        Ok(outcome) if !outcome.is_done() => return Some(judge_failure(&name, outcome)),
        Ok(outcome) if !mount.deleting && is_stored(mount, &goal.state(), outcome.mounts.len()) => {
            return None;
        }
        Ok(_) => format!("{name}: the API does not have the node's report yet"),
        Err(why) => format!("{name}: {why}"),
    };
    Some(not_yet(why))
}
