//! Which changes of a Workflow are admitted. Pure: the same for the embedded API and for a cluster's webhook.
//!
//! The rules are DWS's: a workflow begins in Proposal, goes on state by state, each once it is ready, and to Teardown from
//! anywhere; what its job is does not change.

use std::sync::{Arc, PoisonError, RwLock};

use api::{Workflow, WorkflowState, WorkflowStatus, workflow::DriverStatus};
use directive::{Ruleset, check};
use serde::Deserialize;
use serde_json::Value;

/// The site's rules as the engine knows them now, for whoever admits changes.
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

/// Admits a change, or says what is wrong with it and how to put it right. What does not read as a Workflow is refused by its
/// schema. Without rules the directives are not judged here; the engine judges them in Proposal.
///
/// # Errors
/// The refusal, for the person who made the change.
pub fn admit(old: Option<&Value>, new: &Value, rules: Option<&Ruleset>) -> Result<(), String> {
    let Ok(new) = Workflow::deserialize(new) else { return Ok(()) };
    match old.map(Workflow::deserialize) {
        None => created(&new, rules),
        Some(Ok(old)) => updated(&old, &new),
        // One that cannot be read may be corrected.
        Some(Err(_)) => Ok(()),
    }
}

fn created(new: &Workflow, rules: Option<&Ruleset>) -> Result<(), String> {
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
    let is_begun = |status: &WorkflowStatus| {
        status.state.is_some() || status.ready || !status.drivers.is_empty()
    };
    if new.status.as_ref().is_some_and(is_begun) {
        return Err("status.state, ready or drivers is set: leave them to the engine".to_owned());
    }
    let submitted = |rules: &Ruleset| check::submitted(&spec.directives, rules);
    let checked = rules.map_or(Ok(Vec::new()), submitted);
    checked.map(drop).map_err(|problems| problems.to_string())
}

fn updated(old: &Workflow, new: &Workflow) -> Result<(), String> {
    unchanged(old, new)?;
    // What is stored already is not judged again: finalizers must come off.
    if new.spec.hurry && !old.spec.hurry && new.spec.desired_state != WorkflowState::Teardown {
        return Err(
            "spec.hurry is true: set it only together with desiredState Teardown".to_owned()
        );
    }
    state(old, new)?;
    let (before, after) =
        (old.status.clone().unwrap_or_default(), new.status.clone().unwrap_or_default());
    shares(&before, &after)
}

/// What a job is does not change.
fn unchanged(old: &Workflow, new: &Workflow) -> Result<(), String> {
    let (old, new) = (&old.spec, &new.spec);
    let fields = [
        ("wlmID", old.wlm_id == new.wlm_id),
        ("jobID", old.job_id == new.job_id),
        ("userID", old.user_id == new.user_id),
        ("groupID", old.group_id == new.group_id),
        ("dwDirectives", old.directives == new.directives),
    ];
    match fields.into_iter().find(|(_, is_same)| !is_same) {
        Some((field, _)) => Err(format!("spec.{field} is immutable: create another workflow")),
        None => Ok(()),
    }
}

/// Each state follows the one before, once that is ready.
fn state(old: &Workflow, new: &Workflow) -> Result<(), String> {
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

/// A share of a state is told while the workflow is in that state, and is done for good.
fn shares(before: &WorkflowStatus, after: &WorkflowStatus) -> Result<(), String> {
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
        return Err("status.drivers: no share may be added or taken away".to_owned());
    }
    for (index, (old, new)) in before.drivers.iter().zip(&after.drivers).enumerate() {
        if old == new {
            continue;
        }
        if Some(&old.watch_state) != before.state.as_ref() || old.watch_state != new.watch_state {
            return Err(format!(
                "status.drivers[{index}] is about {}: it may change in that state only",
                old.watch_state
            ));
        }
        if old.completed && !new.completed {
            return Err(format!("status.drivers[{index}] is completed, and stays so"));
        }
    }
    Ok(())
}
