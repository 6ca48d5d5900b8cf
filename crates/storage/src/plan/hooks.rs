//! Determines the hooks that are due.

use std::{borrow::Cow, collections::BTreeMap};

use crate::{
    Step,
    desired::{Hook, HookPoint, HookScope},
    observed::Observed,
};

/// Plans the hooks of the hook point that have no record of a run; `more` holds the variables that are known only after
/// the observation.
pub(super) fn due<'a>(
    hooks: &'a [Hook],
    phase: HookPoint,
    observed: &'a Observed,
    more: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = Step> + 'a {
    hooks
        .iter()
        .filter(move |hook| hook.id.phase == phase && !observed.hooks.contains(&hook.id))
        .map(|hook| Step::RunHook { id: hook.id.clone(), line: hook.command.expand(more) })
}

/// Returns whether any of the hook point's hooks must run.
pub(super) fn is_due(hooks: &[Hook], phase: HookPoint, observed: &Observed) -> bool {
    due(hooks, phase, observed, &BTreeMap::new()).next().is_some()
}

/// Plans the beginning of a scope's set-up. If the records of earlier hook runs are stale, plans to remove them first,
/// and also removes them from the returned observation. They are stale in two cases: tear-down hooks have run since
/// then, so that the set-up hooks must run again; or the mount, file system or Lustre target of the scope is made anew
/// (`is_new`).
pub(super) fn begin<'a>(
    scope: &HookScope,
    hooks: &[Hook],
    observed: &'a Observed,
    is_new: bool,
) -> (Vec<Step>, Cow<'a, Observed>) {
    let mut steps = Vec::new();
    let mut known = Cow::Borrowed(observed);
    let undid = |hook: &Hook| hook.id.phase.tears_down() && observed.hooks.contains(&hook.id);
    if hooks.iter().any(undid) || (is_new && !observed.hooks.is_empty()) {
        steps.push(Step::ForgetHooks { scope: scope.clone() });
        let known = known.to_mut();
        known.hooks.clear();
        known.hooks_open = false;
    }
    steps.extend(open(scope, hooks, &known));
    (steps, known)
}

/// Plans to open the scope if it has hooks. While a scope is open, its tear-down hooks must still run; when it is
/// closed, they have run or nothing was set up.
pub(super) fn open(scope: &HookScope, hooks: &[Hook], observed: &Observed) -> Option<Step> {
    let is_needed = !hooks.is_empty() && !observed.hooks_open;
    is_needed.then(|| Step::OpenHooks { scope: scope.clone() })
}
