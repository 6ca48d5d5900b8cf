//! Plans the changes for a workflow from its objects. Pure: no I/O; the caller passes the time.
//!
//! Every directive is planned by itself, and the changes of all directives are made side by side: a directive that
//! waits or fails delays no other. A directive is done when planning it again yields no change.

pub mod assign;
pub mod checks;
pub mod container;
pub mod copies;
pub mod global_lustre;
pub mod jobdw;
pub mod limits;
pub mod lustre;
pub mod mounts;
pub mod persistent;
pub mod place;
pub mod proposal;
pub mod setup;
pub mod storage;
pub mod system_storage;
pub mod teardown;

use std::collections::{BTreeMap, BTreeSet};

use api::{ErrorType, Severity, WorkflowState, workflow::DriverStatus};
use controller::has_finalizer;
use directive::{Command, Directive, check};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::{
    admit,
    change::Change,
    external_mgt,
    names::{GO_FINALIZER, WORKFLOW_FINALIZER, is_copy},
    objects::{
        instance,
        sessions::Contact,
        view::{DirectiveView, Group, Orphans, View},
    },
    plan::persistent::PersistentStorage,
    progress::{Outcome, Progress, internal_error, transient_error, user_error},
    rabbit, report,
    world::{Key, World},
};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// All changes; none depends on another.
    pub changes: Vec<Change>,
    /// Progress of each directive in the present state.
    pub outcomes: Vec<Outcome>,
    /// Nodes whose agents have to act.
    pub awaited: BTreeSet<String>,
    /// True if the engine plans this key again soon: because a wait is too recent to be in the status yet, or because
    /// the workflow waits until ports may be used again, a time that no watch reports.
    pub replan_soon: bool,
    /// Time at which the engine plans this key again, unless something changes before.
    pub replan_at: Option<Timestamp>,
}

impl From<Progress> for Plan {
    fn from(progress: Progress) -> Self {
        let Progress { changes, outcome, awaited } = progress;
        Self { changes, outcomes: vec![outcome], awaited, ..Self::default() }
    }
}

/// Plans the directives that have certain commands.
pub trait Driver: std::fmt::Debug + Sync {
    /// Returns true if this driver plans the command.
    fn handles(&self, command: &Command) -> bool;

    /// Plans directive `index` in this state.
    fn advance(
        &self,
        view: &View<'_>,
        index: usize,
        command: &Command,
        state: &WorkflowState,
    ) -> Progress;
}

/// Plans the changes for one key of the queue.
#[must_use]
pub fn plan_key(world: &World, key: &Key, now: Timestamp) -> Plan {
    let plan_groups = |groups: Vec<Group>| {
        let plans = groups.iter().map(|group| plan_orphan(&world.site, group));
        plans.fold(Plan::default(), |mut all, plan| {
            all.changes.extend(plan.changes);
            all.outcomes.extend(plan.outcomes);
            all
        })
    };
    match key {
        Key::Rabbit(rabbit) => rabbit::plan(&world.site, rabbit, now),
        Key::Mgt(at) => {
            let changes = external_mgt::plan(&world.site, at).into_iter().collect();
            Plan { changes, ..Plan::default() }
        }
        Key::SystemStorage(at) => match world.system_storage(at) {
            Some(view) => system_storage::plan(&view, now),
            None => plan_groups(going(world.system_storage_groups(at))),
        },
        Key::Workflow(at) => match world.view(at) {
            Some(view) => plan(&View { now, ..view }, now),
            None if world.site.unreadable.contains_key(at) => {
                Progress::wait("a correction of the Workflow, which cannot be read").into()
            }
            None => {
                let orphans = world.orphans(at, "");
                if orphans.is_empty() {
                    plan_groups(world.groups(at).into_values().collect())
                } else {
                    delete_orphans(&orphans)
                }
            }
        },
        Key::Persistent(at) => match world.instance(at) {
            Some(view) => persistent::plan_instance(&view),
            None if world.may_have_unread(at) => {
                Progress::wait("a correction of the PersistentStorageInstance or its Servers, which cannot be read").into()
            }
            None => plan_groups(going(world.instance_groups(at))),
        },
    }
}

/// Returns the storage whose Servers is gone or being deleted. Only such storage is removed when the object that it
/// belongs to is missing: otherwise that object may exist although the engine cannot read it.
fn going(groups: BTreeMap<String, Group>) -> Vec<Group> {
    let is_going = |group: &Group| {
        let servers = group.servers.as_ref();
        servers.is_none_or(|servers| servers.metadata.deletion_timestamp.is_some())
    };
    groups.into_values().filter(is_going).collect()
}

/// Plans the changes for a workflow.
#[must_use]
pub fn plan(view: &View<'_>, now: Timestamp) -> Plan {
    if has_finalizer(&*view.workflow, GO_FINALIZER) {
        let changes = report::mark_go_owned(view).into_iter().collect();
        let outcomes = vec![Outcome::Wait("the Go controllers".to_owned())];
        return Plan { changes, outcomes, ..Plan::default() };
    }
    if !view.is_deleted() && !has_finalizer(&*view.workflow, WORKFLOW_FINALIZER) {
        // First put the engine's finalizer on the Workflow; the next plan makes the objects.
        let changes = report::begin_workflow(view, now).into_iter().collect();
        return Plan { changes, ..Plan::default() };
    }
    let state = view.state();
    let all_progress: Vec<Progress> = advance_all(view, &state, now);
    let mut changes: Vec<Change> = proposal::create_computes(view).into_iter().collect();
    if view.orphans.is_empty() {
        let leftovers = view.leftovers.iter();
        changes.extend(leftovers.flat_map(|group| plan_orphan(view.site, group).changes));
    } else {
        changes.extend(delete_orphans(&view.orphans).changes);
    }
    let mut outcomes = Vec::new();
    let is_early = report::is_new(view, &state, now);
    let (mut silent_from, mut awaited) = (None, BTreeSet::new());
    for progress in all_progress {
        let progress = name_silent(view, progress, &mut silent_from, now);
        changes.extend(progress.changes);
        awaited.extend(progress.awaited);
        let outcome =
            if is_early { wlm_errors_as_waits(progress.outcome) } else { progress.outcome };
        outcomes.push(fail_if_refused(view, outcome));
    }
    if view.is_deleted() {
        changes.extend(teardown::release_workflow(view, &outcomes));
    } else {
        changes.extend(report::report(
            view,
            &state,
            &outcomes,
            || container::compute_environment(view),
            now,
        ));
    }
    let replan_soon = report::has_unwritten_wait(view, &state, &outcomes, now)
        || container::is_cooling(view, now);
    let moments = [container::next_moment(view, now), copies::next_moment(view, now), silent_from];
    let replan_at = moments.into_iter().flatten().min();
    Plan { changes, outcomes, awaited, replan_soon, replan_at }
}

/// Turns a wait for a node whose agent is silent into an error that lasts as long as the silence, so that the time-outs
/// of a workload manager apply. `silent_from` becomes the earliest time at which another awaited agent is silent.
fn name_silent(
    view: &View<'_>,
    mut progress: Progress,
    silent_from: &mut Option<Timestamp>,
    now: Timestamp,
) -> Progress {
    let Outcome::Wait(what) = &progress.outcome else { return progress };
    let mut silent: Vec<String> = Vec::new();
    for node in &progress.awaited {
        match view.site.contact(node, now) {
            Contact::Silent(silence) => silent.push(format!("the agent of {node} is {silence}")),
            Contact::Ended(due) => *silent_from = silent_from.map(|at| at.min(due)).or(Some(due)),
            Contact::Open | Contact::Unknown => {}
        }
    }
    let Some(first) = silent.first() else { return progress };
    let others = if silent.len() > 1 { ", and others are silent too" } else { "" };
    progress.outcome = Outcome::Failed(transient_error(format!(
        "pending {what}: {first}{others}; see whether the machine and its agent run"
    )));
    progress
}

/// Deletes objects that containers of a vanished workflow left behind. The workflow's storage is removed after these
/// objects: Kubernetes keeps a volume while a pod uses it.
fn delete_orphans(orphans: &Orphans) -> Plan {
    let containers = orphans.containers.iter().filter_map(|object| Change::delete(&**object));
    let volumes = orphans.volumes.iter().filter_map(|object| Change::delete(&**object));
    let movements = orphans.movements.iter().filter_map(|object| Change::delete(&**object));
    let what = if orphans.movements.is_empty() { "end of containers" } else { "end of copies" };
    Progress::wait(what).with(containers.chain(volumes).chain(movements)).into()
}

/// Plans the removal of the storage of a workflow that no longer exists.
#[must_use]
pub fn plan_orphan(site: &crate::objects::site::Site, group: &Group) -> Plan {
    let mut progress = teardown::remove_group(site, group);
    if group.is_gone() {
        progress.changes.extend(teardown::release_servers(group));
    }
    progress.into()
}

fn advance_all(view: &View<'_>, state: &WorkflowState, now: Timestamp) -> Vec<Progress> {
    if *state == WorkflowState::Teardown {
        return tear_down_all(view, now);
    }
    let lines = &view.workflow.spec.directives;
    let is_proposal = *state == WorkflowState::Proposal;
    let problems = if is_proposal { problems(view) } else { Vec::new() };
    // Admission refuses a Workflow with texts that are no valid label values. In a cluster without the webhook,
    // Proposal reports this fault.
    let limited = is_proposal.then(|| limits::proposal_refusal(view)).flatten();
    let unnamable = is_proposal.then(|| admit::check_names(&view.workflow).err()).flatten();
    let containers = container::Containers { now };
    let drivers: [&dyn Driver; 4] =
        [&jobdw::JobStorage, &PersistentStorage, &containers, &copies::Copies];
    let driver = |command: &Command| drivers.into_iter().find(|driver| driver.handles(command));
    let advance_line = |(index, line): (usize, &String)| {
        let command =
            line.parse::<Directive>().ok().and_then(|directive| Command::try_from(&directive).ok());
        let driver = command.as_ref().and_then(driver);
        let proposed = command.as_ref().filter(|_| *state == WorkflowState::Proposal);
        let problem = problems.iter().find(|(at, _)| *at == index).map(|(_, why)| why.clone());
        let unsupported = proposed.and_then(check::unsupported);
        let unsupported = unsupported.map(|fault| fault.to_string());
        let is_limited = command.as_ref().is_some_and(limits::makes_storage);
        let limited = limited.clone().filter(|_| is_limited);
        let refusals = [unsupported, unnamable.clone(), problem, limited];
        if let Some(why) = refusals.into_iter().flatten().next() {
            return Progress::failed(user_error(why));
        }
        let Some(command) = command else {
            return Progress::failed(user_error(format!("{line:?} is not a directive")));
        };
        driver.map_or_else(Progress::default, |driver| driver.advance(view, index, &command, state))
    };
    lines.iter().enumerate().map(advance_line).collect()
}

/// Removes all objects that were made for each directive, even if the directive is invalid.
fn tear_down_all(view: &View<'_>, now: Timestamp) -> Vec<Progress> {
    let lines = &view.workflow.spec.directives;
    let tear_down = |(index, directive): (usize, &DirectiveView)| match persistent_command(
        directive,
        &lines[index],
    ) {
        Some(command) => PersistentStorage.advance(view, index, &command, &WorkflowState::Teardown),
        None if container::containers_may_use(view, index) => Progress::wait("end of containers"),
        None if copies::has_movement(view) => {
            let ended = if is_copy(&view.workflow, index) {
                copies::remove(view, index)
            } else {
                container::remove_containers(view, index, now)
            };
            ended.and(Progress::wait("end of copies"))
        }
        None => {
            let storage = teardown::remove_group(view.site, &directive.storage);
            hide_earlier_error(view, index, storage)
                .and(container::remove_containers(view, index, now))
        }
    };
    view.directives.iter().enumerate().map(tear_down).collect()
}

/// Turns an error for the workload manager into a wait while the state is new. The watch of an object that the workload
/// manager filled may be behind the watch of the workflow, and workload managers end a job at its first error.
fn wlm_errors_as_waits(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Failed(error) if error.error_type == ErrorType::Wlm => {
            Outcome::Wait(error.user_message.unwrap_or(error.debug_message))
        }
        other => other,
    }
}

/// Turns the outcome of a directive that is not done into an error, if the API refuses the workflow's changes
/// again and again. The cause may be a missing right or quota, which an administrator can grant, or an object that
/// the API never accepts.
fn fail_if_refused(view: &View<'_>, outcome: Outcome) -> Outcome {
    let is_open = matches!(outcome, Outcome::Working | Outcome::Wait(_) | Outcome::Queued(_));
    let last = view.refused.iter().find(|refusal| refusal.is_final).or(view.refused.first());
    let Some(refusal) = last.filter(|_| is_open) else { return outcome };
    let others = match view.refused.len() - 1 {
        0 => String::new(),
        others => format!("; and {others} more changes"),
    };
    let text = &refusal.text;
    Outcome::Failed(if refusal.is_final {
        internal_error(format!("{text}{others}"))
    } else {
        transient_error(format!("{text}{others}; the coordinator tries again"))
    })
}

/// Turns an error that an earlier state reported into a wait for the removal. A deleted object keeps this error until
/// its agent handles the deletion, and the error says nothing about the removal. A Major error stays an error: workload
/// managers act on how long a Major error lasts.
fn hide_earlier_error(view: &View<'_>, index: usize, progress: Progress) -> Progress {
    let Outcome::Failed(error) = &progress.outcome else { return progress };
    let drivers = view.workflow.status.iter().flat_map(|status| &status.drivers);
    let mut failed = drivers.filter(|entry| {
        entry.watch_state != WorkflowState::Teardown
            && entry.status == DriverStatus::Error
            && usize::try_from(entry.dwd_index) == Ok(index)
    });
    let reported = causes::message(&error.debug_message);
    let is_reported = failed.any(|entry| entry.error == reported);
    if error.severity != Severity::Fatal || !is_reported {
        return progress;
    }
    let message = error.user_message.as_ref().unwrap_or(&error.debug_message);
    let why = format!("removal, after an earlier state failed: {message}");
    Progress { outcome: Outcome::Wait(why), ..progress }
}

/// Parses a directive about persistent storage, which other workflows may use too; `None` for other directives.
fn persistent_command(directive: &DirectiveView, line: &str) -> Option<Command> {
    directive.persistent.as_ref()?;
    instance::command(line).map(|(command, _)| command)
}

/// Returns the faults of a workflow's directives, each with the directive's index.
fn problems(view: &View<'_>) -> Vec<(usize, String)> {
    let lines = &view.workflow.spec.directives;
    let rules = &view.site.rules;
    let checked = rules
        .expand(lines)
        .and_then(|_| rules.check(lines))
        .and_then(|directives| check::workflow(lines, &directives, &proposal::known_names(view)));
    let faults = checked.err().map(|problems| problems.0).unwrap_or_default();
    faults.into_iter().map(|problem| (problem.index, problem.fault.to_string())).collect()
}

/// Returns the patch that removes a finalizer from an object.
pub(crate) fn without_finalizer<K: controller::Object>(
    object: &K,
    finalizer: &str,
) -> Option<Change> {
    let mut after = object.clone();
    after.finalizers_mut().retain(|name| name != finalizer);
    Change::patch(object, &after)
}

#[cfg(test)]
mod tests;
