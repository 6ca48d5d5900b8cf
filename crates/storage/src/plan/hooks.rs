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

/// The hooks of a scope, by what they accompany.
pub(super) struct Lists<'a> {
    pub(super) set_up: &'a [&'a [Hook]],
    pub(super) tear_down: &'a [&'a [Hook]],
}

/// Begins the set-up of a scope. Its records are stale when tear-down hooks ran since, because set-up must then repeat
/// what they undid, and when the hooks' object `is_new`. Stale records are dropped first, and the observation that is
/// returned has none.
pub(super) fn begin<'a>(
    scope: &HookScope,
    lists: &Lists<'_>,
    observed: &'a Observed,
    is_new: bool,
) -> (Vec<Step>, Cow<'a, Observed>) {
    let mut steps = Vec::new();
    let mut known = Cow::Borrowed(observed);
    let has_run = |hook: &Hook| observed.hooks.contains(&hook.id);
    let torn_down = lists.tear_down.iter().copied().flatten().any(has_run);
    if torn_down || (is_new && !observed.hooks.is_empty()) {
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
pub(super) fn open(scope: &HookScope, lists: &Lists<'_>, observed: &Observed) -> Option<Step> {
    let wanted = lists.set_up.iter().chain(lists.tear_down).any(|list| !list.is_empty());
    (wanted && !observed.hooks_open).then(|| Step::OpenHooks { scope: scope.clone() })
}
