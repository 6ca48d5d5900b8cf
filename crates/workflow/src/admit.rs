//! Completes new Workflows with their first status, and admits or refuses changes of Workflows. Pure: used by the
//! embedded API and by the webhooks of a cluster.
//!
//! The rules are those of DWS (Data Workflow Services, whose API Warren serves): a workflow begins in Proposal, and
//! enters the next state once the present one is ready; Teardown may follow any state. The fields that describe the
//! workflow's job are immutable.

use std::sync::{Arc, PoisonError, RwLock};

use api::{Workflow, WorkflowState, WorkflowStatus, workflow::DriverStatus};
use directive::{Ruleset, breakdown::is_label_value, check};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    names::{LONGEST_LABEL, job_id},
    report::begin_status,
};

/// The site's rules as the engine last read them, shared with the admission webhooks.
#[derive(Clone, Debug, Default)]
pub struct Rules(Arc<RwLock<Option<Arc<Ruleset>>>>);

impl Rules {
    pub(crate) fn set(&self, rules: &Arc<Ruleset>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !known.as_ref().is_some_and(|known| Arc::ptr_eq(known, rules)) {
            *known = Some(rules.clone());
        }
    }

    /// The rules; `None` before the engine has read them.
    #[must_use]
    pub fn get(&self) -> Option<Arc<Ruleset>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns the new Workflow with its first status and without presets, which workload managers read in the API's answer to the creation.
/// `None` for an object that [`admit`] or its schema refuses. A `status.state` or `status.ready` that the client set is
/// kept, so that [`admit`] refuses the object.
#[must_use]
pub fn complete(new: &Value, rules: Option<&Ruleset>, now: Timestamp) -> Option<Value> {
    let mut workflow = Workflow::deserialize(new).ok()?;
    if workflow.spec.desired_state != WorkflowState::Proposal {
        return None;
    }
    let sent = workflow.status.take().unwrap_or_default();
    begin_status(&mut workflow, rules, now);
    let mut status = workflow.status.unwrap_or_default();
    status.ready = sent.ready;
    status.state = sent.state.or(status.state);
    let mut completed = new.clone();
    completed["spec"]["dwDirectives"] = json!(workflow.spec.directives);
    completed["status"] = serde_json::to_value(status).ok()?;
    Some(completed)
}

/// Admits a change, or returns its fault and the remedy. Without rules the directives are not checked here; the engine
/// checks them in Proposal.
///
/// # Errors
/// The refusal, for the person who made the change.
pub fn admit(old: Option<&Value>, new: &Value, rules: Option<&Ruleset>) -> Result<(), String> {
    match (old.map(Workflow::deserialize), Workflow::deserialize(new)) {
        (None, Ok(new)) => check_created(&new, rules),
        (Some(Ok(old)), Ok(new)) => check_updated(&old, &new, rules),
        // A stored Workflow that cannot be read may be changed, so that its content can be corrected or its
        // finalizers removed.
        (Some(Err(_)), _) => Ok(()),
        (None | Some(Ok(_)), Err(error)) => Err(format!(
            "the Workflow does not match its schema, so the engine could not carry it out: {error}"
        )),
    }
}

/// Checks those texts of a Workflow that become parts of the names and labels of other objects.
///
/// # Errors
/// The field, its length or value, and the remedy.
pub fn check_names(workflow: &Workflow) -> Result<(), String> {
    let name = workflow.name_any();
    let last = workflow.spec.directives.len().saturating_sub(1).to_string().len();
    let most = LONGEST_LABEL - "-".len() - last;
    if name.len() > most {
        return Err(format!(
            "metadata.name has {} characters: write at most {most}, because labels of {LONGEST_LABEL} characters hold the name, a dash and the number of a directive",
            name.len()
        ));
    }
    let job = job_id(workflow);
    if !is_label_value(&job) {
        let shown: String = job.chars().take(LONGEST_LABEL).collect();
        return Err(format!(
            "spec.jobID is {shown:?}, of {} characters: write at most {LONGEST_LABEL} letters, digits, '-', '_' and '.', with a letter or digit at both ends, because labels hold it",
            job.chars().count()
        ));
    }
    Ok(())
}

fn check_created(new: &Workflow, rules: Option<&Ruleset>) -> Result<(), String> {
    check_names(new)?;
    let spec = &new.spec;
    if spec.desired_state != WorkflowState::Proposal {
        return Err(format!(
            "spec.desiredState is {}: a workflow is created in Proposal",
            spec.desired_state
        ));
    }
    if spec.hurry {
        return Err("spec.hurry is true: set it together with desiredState Teardown".to_owned());
    }
    let is_ahead = |status: &WorkflowStatus| {
        status.state.as_ref().is_some_and(|state| *state != WorkflowState::Proposal)
            || status.ready
            || status.drivers.iter().any(|share| share.completed)
    };
    if new.status.as_ref().is_some_and(is_ahead) {
        return Err(
            "status.state, ready or drivers is set: only the engine may set them".to_owned()
        );
    }
    let submitted = |rules: &Ruleset| check::submitted(&spec.directives, rules);
    let checked = rules.map_or(Ok(Vec::new()), submitted);
    checked.map(drop).map_err(|problems| problems.to_string())
}

fn check_updated(old: &Workflow, new: &Workflow, rules: Option<&Ruleset>) -> Result<(), String> {
    check_unchanged(old, new, rules)?;
    // A `hurry` that is stored already is not checked again: the check would also refuse a later change, such as the
    // removal of a finalizer.
    if new.spec.hurry && !old.spec.hurry && new.spec.desired_state != WorkflowState::Teardown {
        return Err(
            "spec.hurry is true: set it only together with desiredState Teardown".to_owned()
        );
    }
    check_state(old, new)?;
    let (before, after) =
        (old.status.clone().unwrap_or_default(), new.status.clone().unwrap_or_default());
    check_drivers(&before, &after)
}

/// Checks that the fields that describe the job are unchanged. On a cluster the engine expands presets after the creation.
fn check_unchanged(old: &Workflow, new: &Workflow, rules: Option<&Ruleset>) -> Result<(), String> {
    let (old, new) = (&old.spec, &new.spec);
    let is_expanded = || {
        let expanded = rules.and_then(|rules| rules.expand(&old.directives).ok());
        expanded.is_some_and(|lines| lines == new.directives)
    };
    let fields = [
        ("wlmID", old.wlm_id == new.wlm_id),
        ("jobID", old.job_id == new.job_id),
        ("userID", old.user_id == new.user_id),
        ("groupID", old.group_id == new.group_id),
        ("dwDirectives", old.directives == new.directives || is_expanded()),
    ];
    match fields.into_iter().find(|(_, is_same)| !is_same) {
        Some((field, _)) => Err(format!("spec.{field} is immutable: create another workflow")),
        None => Ok(()),
    }
}

/// Checks that a new desired state is Teardown, or the state after the present one, once the present one is ready.
fn check_state(old: &Workflow, new: &Workflow) -> Result<(), String> {
    let (from, to) = (&old.spec.desired_state, &new.spec.desired_state);
    if from == to || *to == WorkflowState::Teardown {
        return Ok(());
    }
    if *from == WorkflowState::Teardown {
        return Err(format!("spec.desiredState is {to}: nothing follows Teardown"));
    }
    let Some(next) = from.next().filter(|next| *next == to) else {
        let next = from.next().map_or("Teardown", WorkflowState::as_str);
        return Err(format!("spec.desiredState is {to}: after {from} comes {next}, or Teardown"));
    };
    let is_ready = old
        .status
        .as_ref()
        .is_some_and(|status| status.ready && status.state.as_ref() == Some(from));
    if is_ready {
        Ok(())
    } else {
        Err(format!("spec.desiredState is {next}: {from} is not ready; wait for status.ready"))
    }
}

/// Checks `status.drivers`: an entry may change only while the workflow is in the entry's state, and a
/// completed entry stays completed.
fn check_drivers(before: &WorkflowStatus, after: &WorkflowStatus) -> Result<(), String> {
    for (index, share) in after.drivers.iter().enumerate() {
        let is_stored = before.drivers.get(index) == Some(share);
        if !is_stored
            && share.completed
            && (share.status != DriverStatus::Completed || !share.error.is_empty())
        {
            return Err(format!(
                "status.drivers[{index}] is completed: its status must be Completed and its error empty"
            ));
        }
    }
    if before.drivers.is_empty() {
        return Ok(());
    }
    if before.drivers.len() != after.drivers.len() {
        return Err("status.drivers: no entry may be added or removed".to_owned());
    }
    for (index, (old, new)) in before.drivers.iter().zip(&after.drivers).enumerate() {
        if old == new {
            continue;
        }
        if Some(&old.watch_state) != before.state.as_ref() || old.watch_state != new.watch_state {
            return Err(format!(
                "status.drivers[{index}] belongs to state {}: it may change in that state only",
                old.watch_state
            ));
        }
        if old.completed && !new.completed {
            return Err(format!("status.drivers[{index}] is completed: it cannot be changed back"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
