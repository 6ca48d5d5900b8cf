//! Which hooks must run.

use std::{borrow::Cow, collections::BTreeMap};

use crate::{
    Step,
    desired::{Hook, HookScope},
    observed::Observed,
};

/// Steps for those of `hooks` that are not recorded, with `more` variables known now.
pub(super) fn due<'a>(
    hooks: &'a [Hook],
    observed: &'a Observed,
    more: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = Step> + 'a {
    hooks
        .iter()
        .filter(|hook| !observed.hooks.contains(&hook.id))
        .map(|hook| Step::RunHook { id: hook.id.clone(), line: hook.command.expand(more) })
}

/// Whether any of `hooks` is recorded.
pub(super) fn any_ran(hooks: &[Hook], observed: &Observed) -> bool {
    hooks.iter().any(|hook| observed.hooks.contains(&hook.id))
}

/// Begins the set-up of a scope. When it `is_stale`, its records are dropped first, and the observation that is returned
/// has none.
pub(super) fn begin<'a>(
    scope: &HookScope,
    lists: &[&[Hook]],
    observed: &'a Observed,
    is_stale: bool,
) -> (Vec<Step>, Cow<'a, Observed>) {
    let mut steps = Vec::new();
    let mut known = Cow::Borrowed(observed);
    if is_stale {
        steps.push(Step::ForgetHooks { scope: scope.clone() });
        let known = known.to_mut();
        known.hooks.clear();
        known.hooks_open = false;
    }
    steps.extend(open(scope, lists, &known));
    (steps, known)
}

/// Opens the scope when it has any hooks. An open scope later tells the planner that tear-down hooks must run, a closed
/// one that all of them ran.
pub(super) fn open(scope: &HookScope, lists: &[&[Hook]], observed: &Observed) -> Option<Step> {
    let wanted = lists.iter().any(|list| !list.is_empty());
    (wanted && !observed.hooks_open).then(|| Step::OpenHooks { scope: scope.clone() })
}
