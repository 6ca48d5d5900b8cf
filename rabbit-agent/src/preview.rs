//! Plans what the agent would do for objects, and changes nothing: neither the rabbit nor the API.
//!
//! ```text
//! request ─► snapshot of the agent's cache, with the objects of the request ─► views of passes ─► steps with their cost
//! ```
//! A plan reads the same views and desired states as a pass (`core/agent/passes.rs`). It has the steps of the first round of
//! a pass: later rounds depend on the results of these steps, and the plan only says that more steps follow.

mod blocks;
mod containers;
pub mod cost;
pub mod dry_run;
mod mounts;
pub mod request;
pub mod serve;
pub mod snapshot;
mod storages;

use agent::error::Failure;
use proto::v1::ObjectPlan;
use storage::{ConvergeError, Converger, Desired, Step, plan::first_steps};

use cost::{DataOwner, Stake, with_cost};

pub use snapshot::Snapshot;

/// The last line of a plan whose later steps depend on the results of the listed steps.
const MORE: &str = "more steps follow, which depend on the results of these";

/// The plan for one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Planned {
    pub steps: Vec<String>,
    /// The event that the steps wait for.
    pub waiting: Option<String>,
    /// Why the agent would refuse the object.
    pub rejection: Option<String>,
}

impl Planned {
    fn waiting(why: impl Into<String>) -> Self {
        Self { waiting: Some(why.into()), ..Self::default() }
    }

    /// Returns the plan for an object that the agent refuses. Plans are for operators, so they have the operators'
    /// text.
    fn refused(failure: &Failure) -> Self {
        Self { rejection: Some(failure.debug.clone()), ..Self::default() }
    }

    /// Returns whether a pass would change nothing.
    pub fn is_at_rest(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the plan of a part of the object; a refusal names the part.
    fn add(&mut self, part: &str, planned: Result<Vec<String>, ConvergeError>) {
        match planned {
            Ok(steps) => self.steps.extend(steps),
            Err(error) => {
                let why = format!("{part}: {}", Failure::of_convergence(&error).debug);
                let earlier = self.rejection.take().map(|earlier| format!("{earlier}; "));
                self.rejection = Some(earlier.unwrap_or_default() + &why);
            }
        }
    }

    /// Returns the plan as a message for an object of this kind and name.
    #[must_use]
    pub fn into_message(self, kind: &str, namespace: &str, name: &str) -> ObjectPlan {
        ObjectPlan {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            steps: self.steps,
            waiting: self.waiting.unwrap_or_default(),
            rejection: self.rejection.unwrap_or_default(),
        }
    }
}

/// Plans the first steps of a unit that holds the data of `owner`.
fn plan_unit(
    converger: &Converger,
    unit: &Desired,
    owner: &DataOwner,
) -> Result<Vec<String>, ConvergeError> {
    let observed = converger.observe(unit).map_err(ConvergeError::Observe)?;
    let steps = first_steps(unit, &observed)?;
    let stake = Stake::of_unit(unit, owner, &observed);
    let mut texts: Vec<_> = steps.iter().map(|step| with_cost(step, stake)).collect();
    texts.extend(steps.last().filter(|last| is_followed(last)).map(|_| more(unit, owner)));
    Ok(texts)
}

/// Returns the last line of a unit's plan if more steps follow.
fn more(unit: &Desired, owner: &DataOwner) -> String {
    match unit {
        Desired::FileSystemGone(_) | Desired::TargetGone(_) => {
            format!("{MORE} and destroy the data of {owner}")
        }
        _ => MORE.to_owned(),
    }
}

/// Returns whether more steps follow a plan that ends with this step: its result must be observed first.
fn is_followed(last: &Step) -> bool {
    use storage::step::{VolumeAction, ZfsAction};
    match last {
        Step::Volume { action, .. } => !matches!(
            action,
            VolumeAction::RemovePhysical
                | VolumeAction::RemoveGroup
                | VolumeAction::RemoveLogical
                | VolumeAction::StopLocks
                | VolumeAction::Deactivate
                | VolumeAction::Tag
        ),
        Step::Zfs { action, .. } => matches!(action, ZfsAction::Create | ZfsAction::Import),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use storage::{
        Rounds,
        step::{VolumeAction, ZfsAction},
    };

    use super::*;

    fn volume(action: VolumeAction) -> Step {
        Step::Volume { action, on: "vg".into(), devices: Vec::new(), line: "vg".into() }
    }

    fn zfs(action: ZfsAction) -> Step {
        Step::Zfs { action, on: "pool".into(), devices: Vec::new(), line: "pool".into() }
    }

    #[test]
    fn more_steps_follow_a_step_whose_result_is_observed() {
        for followed in [
            volume(VolumeAction::CreateLogical),
            volume(VolumeAction::Activate),
            zfs(ZfsAction::Create),
            zfs(ZfsAction::Import),
        ] {
            assert!(is_followed(&followed), "{followed}");
        }
        for last in [
            volume(VolumeAction::RemovePhysical),
            volume(VolumeAction::Deactivate),
            zfs(ZfsAction::Destroy),
            zfs(ZfsAction::Format),
        ] {
            assert!(!is_followed(&last), "{last}");
        }
    }

    #[test]
    fn a_refusal_names_each_refused_part() {
        let rejected = |place: usize| {
            let rounds = Rounds::new(place, 0).begin(&["a step"]);
            rounds.map(|_| Vec::new()).map_err(ConvergeError::from)
        };
        let mut planned = Planned::default();
        planned.add("allocation 0", Ok(vec!["a step".to_owned()]));
        planned.add("allocation 1", rejected(1));
        planned.add("allocation 2", rejected(2));
        let rejection = planned.rejection.as_deref().unwrap();
        assert!(rejection.starts_with("allocation 1: ") && rejection.contains("; allocation 2: "));
        assert_eq!((planned.steps.len(), planned.is_at_rest()), (1, false));
    }
}
