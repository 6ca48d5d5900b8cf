//! Prints the plans of an agent.

use proto::v1::ObjectPlan;
use serde_json::{Value, json};

use crate::{Exit, Failure, Output};

impl Output {
    /// Prints the plan for an object: its steps, or the reason why there are none.
    pub fn plan(self, plan: &ObjectPlan) -> Result<(), Failure> {
        let object = format!("{}/{}", plan.kind.to_lowercase(), plan.name);
        match (plan.rejection.as_str(), plan.waiting.as_str(), plan.steps.is_empty()) {
            ("", "", true) => self.line(&format!("{object}: nothing to do")),
            ("", "", false) => self.line(&format!("{object}:")),
            ("", waiting, true) => self.line(&format!("{object}: {waiting}")),
            ("", waiting, false) => self.line(&format!("{object}: {waiting}; then:")),
            (rejection, _, _) => self.line(&format!("{object}: refused: {rejection}")),
        }?;
        for (index, step) in plan.steps.iter().enumerate() {
            self.line(&format!("  {}. {step}", index + 1))?;
        }
        Ok(())
    }

    /// Prints the plans for all objects of an agent; of the objects without anything to do only their number.
    pub fn plans(self, plans: &[ObjectPlan]) -> Result<(), Failure> {
        let (at_rest, busy): (Vec<_>, Vec<_>) = plans.iter().partition(|plan| is_at_rest(plan));
        busy.into_iter().try_for_each(|plan| self.plan(plan))?;
        match at_rest.len() {
            0 if plans.is_empty() => self.line("nothing to do: the agent knows no object"),
            0 => Ok(()),
            1 => self.line("1 object: nothing to do"),
            count => self.line(&format!("{count} objects: nothing to do")),
        }
    }
}

fn is_at_rest(plan: &ObjectPlan) -> bool {
    plan.steps.is_empty() && plan.rejection.is_empty() && plan.waiting.is_empty()
}

/// Returns a plan as JSON.
pub fn plan_json(plan: &ObjectPlan) -> Value {
    json!({
        "kind": plan.kind, "namespace": plan.namespace, "object": plan.name, "steps": plan.steps,
        "waiting": plan.waiting, "rejection": plan.rejection,
    })
}

/// Returns the exit status for plans: a fault of the storage if the agent refuses one of the objects.
pub fn exit_of_plans(plans: &[ObjectPlan]) -> Exit {
    let is_refused = plans.iter().any(|plan| !plan.rejection.is_empty());
    if is_refused { Exit::StorageFault } else { Exit::Done }
}
