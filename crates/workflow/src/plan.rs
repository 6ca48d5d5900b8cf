//! What is to be changed for a workflow, from its objects. Pure: no I/O; the caller passes the time.
//!
//! Every directive is planned by itself and all of their changes are made side by side: one that waits or fails holds up no
//! other. Done means that planning again yields nothing.

pub mod allocation;
pub mod checks;
pub mod container;
pub mod global_lustre;
pub mod jobdw;
pub mod lustre;
pub mod mounts;
pub mod persistent;
pub mod place;
pub mod proposal;
pub mod setup;
pub mod teardown;

use api::{ErrorType, Severity, WorkflowState, workflow::DriverStatus};
use controller::has_finalizer;
use directive::{Command, Directive, check};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::{
    admit,
    change::Change,
    external_mgt, instance,
    names::{GO_FINALIZER, WORKFLOW_FINALIZER},
    plan::persistent::PersistentStorage,
    progress::{Outcome, Progress, internal_error, transient_error, user_error},
    rabbit, report,
    view::{DirectiveView, Group, Left, View},
    world::{Key, World},
};

/// What is to be changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// All changes; none depends on another.
    pub changes: Vec<Change>,
    /// How far each directive is in the present state.
    pub outcomes: Vec<Outcome>,
    /// The engine plans this key again soon: it may still have to write a wait to the status, or ports become free, which no watch
    /// reports.
    pub replan_soon: bool,
    /// And at this moment, unless something changes before.
    pub replan_at: Option<Timestamp>,
}

impl From<Progress> for Plan {
    fn from(progress: Progress) -> Self {
        let outcomes = vec![progress.outcome];
        Self { changes: progress.changes, outcomes, ..Self::default() }
    }
}

/// Carries out directives of some kind.
pub trait Driver: std::fmt::Debug + Sync {
    /// Whether it is this one that carries out the command.
    fn takes(&self, command: &Command) -> bool;

    /// What is to be done for directive `index` in this state.
    fn advance(
        &self,
        view: &View<'_>,
        index: usize,
        command: &Command,
        state: &WorkflowState,
    ) -> Progress;
}

/// The plan for one of the things that are planned by themselves.
#[must_use]
pub fn plan_key(world: &World, key: &Key, now: Timestamp) -> Plan {
    let orphans = |groups: Vec<Group>| {
        let plans = groups.iter().map(|group| plan_orphan(&world.site, group));
        plans.fold(Plan::default(), |mut all, plan| {
            all.changes.extend(plan.changes);
            all.outcomes.extend(plan.outcomes);
            all
        })
    };
    match key {
        Key::Rabbit(rabbit) => {
            let changes = rabbit::plan(&world.site, rabbit).into_iter().collect();
            Plan { changes, ..Plan::default() }
        }
        Key::Mgt(at) => {
            let changes = external_mgt::plan(&world.site, at).into_iter().collect();
            Plan { changes, ..Plan::default() }
        }
        Key::Workflow(at) => match world.view(at) {
            Some(view) => plan(&View { now, ..view }, now),
            None if world.site.unreadable.contains_key(at) => {
                Progress::wait("a correction of the Workflow, which cannot be read").into()
            }
            None => {
                let left = world.left(at, "");
                if left.is_empty() {
                    orphans(world.groups(at).into_values().collect())
                } else {
                    ended(&left)
                }
            }
        },
        Key::Persistent(at) => match world.instance(at) {
            Some(view) => persistent::plan_instance(&view),
            None => {
                // An object that cannot be read may still say that it is to stay; its Servers goes with it.
                let groups = world.instance_groups(at).into_values();
                let is_going = |group: &Group| {
                    let servers = group.servers.as_ref();
                    servers.is_none_or(|one| one.metadata.deletion_timestamp.is_some())
                };
                orphans(groups.filter(is_going).collect())
            }
        },
    }
}

/// The plan for a workflow.
#[must_use]
pub fn plan(view: &View<'_>, now: Timestamp) -> Plan {
    if has_finalizer(&*view.workflow, GO_FINALIZER) {
        let changes = report::mark_go_owned(view).into_iter().collect();
        let outcomes = vec![Outcome::Wait("the Go controllers".to_owned())];
        return Plan { changes, outcomes, ..Plan::default() };
    }
    if !view.is_deleted() && !has_finalizer(&*view.workflow, WORKFLOW_FINALIZER) {
        // First put our finalizer on the Workflow; the next plan makes its objects.
        let changes = report::begin(view, now).into_iter().collect();
        return Plan { changes, ..Plan::default() };
    }
    let state = view.state();
    let progress: Vec<Progress> = advance_all(view, &state, now);
    let mut changes: Vec<Change> = proposal::computes(view).into_iter().collect();
    if view.left.is_empty() {
        let leftovers = view.leftovers.iter();
        changes.extend(leftovers.flat_map(|group| plan_orphan(view.site, group).changes));
    } else {
        changes.extend(ended(&view.left).changes);
    }
    let mut outcomes = Vec::new();
    let is_early = report::is_new(view, &state, now);
    for one in progress {
        changes.extend(one.changes);
        let outcome = if is_early { wlm_errors_as_waits(one.outcome) } else { one.outcome };
        outcomes.push(refused(view, outcome));
    }
    if view.is_deleted() {
        changes.extend(teardown::release(view, &outcomes));
    } else {
        changes.extend(report::report(view, &state, &outcomes, now));
    }
    let replan_soon = report::has_unwritten_wait(view, &state, &outcomes, now)
        || container::is_cooling(view, now);
    let replan_at = container::next_moment(view, now);
    Plan { changes, outcomes, replan_soon, replan_at }
}

/// Deletes what containers of a vanished workflow left; its storage goes after that. Kubernetes keeps a volume while a pod uses it.
fn ended(left: &Left) -> Plan {
    let containers = left.containers.iter().filter_map(|one| Change::delete(&**one));
    let volumes = left.volumes.iter().filter_map(|one| Change::delete(&**one));
    Progress::wait("end of containers").with(containers.chain(volumes)).into()
}

/// What is to be done for the storage of a workflow that is no more.
#[must_use]
pub fn plan_orphan(site: &crate::site::Site, group: &Group) -> Plan {
    let mut progress = teardown::group(site, group);
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
    // Admission refuses such a Workflow; on a cluster no webhook may have seen it.
    let unnamable = is_proposal.then(|| admit::check_names(&view.workflow).err()).flatten();
    let containers = container::Containers { now };
    // Who carries out what.
    let drivers: [&dyn Driver; 3] = [&jobdw::JobStorage, &PersistentStorage, &containers];
    let driver = |command: &Command| drivers.into_iter().find(|driver| driver.takes(command));
    let one = |(index, line): (usize, &String)| {
        let command = line.parse::<Directive>().ok().and_then(|one| Command::try_from(&one).ok());
        let driver = command.as_ref().and_then(driver);
        let asked = command.as_ref().filter(|_| *state == WorkflowState::Proposal);
        let problem = problems.iter().find(|(of, _)| *of == index).map(|(_, why)| why.clone());
        let unserved = asked.and_then(check::unserved).map(|fault| fault.to_string());
        if let Some(why) = unserved.or_else(|| unnamable.clone()).or(problem) {
            return Progress::failed(user_error(why));
        }
        let Some(command) = command else {
            return Progress::failed(user_error(format!("{line:?} is no directive")));
        };
        driver.map_or_else(Progress::default, |one| one.advance(view, index, &command, state))
    };
    lines.iter().enumerate().map(one).collect()
}

/// What was made goes, whatever asked for it.
fn tear_down_all(view: &View<'_>, now: Timestamp) -> Vec<Progress> {
    let lines = &view.workflow.spec.directives;
    let one = |(index, of): (usize, &DirectiveView)| match persistent_command(of, &lines[index]) {
        Some(command) => PersistentStorage.advance(view, index, &command, &WorkflowState::Teardown),
        None if container::holds(view, index) => Progress::wait("end of containers"),
        None => {
            let storage = teardown::group(view.site, &of.storage);
            hide_earlier_error(view, index, storage).and(container::removed(view, index, now))
        }
    };
    view.directives.iter().enumerate().map(one).collect()
}

/// In a state that was only just begun the watch of what a workload manager filled before may be behind that of the workflow.
/// Workload managers end a job at the first error, so the workflow waits with it until the state is not new.
fn wlm_errors_as_waits(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Failed(error) if error.error_type == ErrorType::Wlm => {
            Outcome::Wait(error.user_message.unwrap_or(error.debug_message))
        }
        other => other,
    }
}

/// A directive that is not done, in a workflow of which the API refuses changes again and again: a right or a quota that somebody
/// may give, or an object that the API never takes.
fn refused(view: &View<'_>, outcome: Outcome) -> Outcome {
    let is_open = matches!(outcome, Outcome::Working | Outcome::Wait(_) | Outcome::Queued(_));
    let last = view.refused.iter().find(|one| one.is_final).or(view.refused.first());
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

/// A deleted object keeps the error that ended an earlier state until its agent looks at it again. That error says nothing about
/// the removal, so Teardown waits. An error that may pass stays an error: workload managers act on how long it lasts.
fn hide_earlier_error(view: &View<'_>, index: usize, progress: Progress) -> Progress {
    let Outcome::Failed(error) = &progress.outcome else { return progress };
    let drivers = view.workflow.status.iter().flat_map(|status| &status.drivers);
    let mut failed = drivers.filter(|one| {
        one.watch_state != WorkflowState::Teardown
            && one.status == DriverStatus::Error
            && usize::try_from(one.dwd_index) == Ok(index)
    });
    let reported = causes::message(&error.debug_message);
    let is_reported = failed.any(|one| one.error == reported);
    if error.severity != Severity::Fatal || !is_reported {
        return progress;
    }
    let message = error.user_message.as_ref().unwrap_or(&error.debug_message);
    let why = format!("removal, after an earlier state failed: {message}");
    Progress { outcome: Outcome::Wait(why), ..progress }
}

/// The directive about storage that is not this workflow's alone.
fn persistent_command(of: &DirectiveView, line: &str) -> Option<Command> {
    of.persistent.as_ref()?;
    instance::command(line).map(|(command, _)| command)
}

/// What is wrong with the directives of a workflow, each by its index.
fn problems(view: &View<'_>) -> Vec<(usize, String)> {
    let lines = &view.workflow.spec.directives;
    let checked = view
        .site
        .rules
        .check(lines)
        .and_then(|directives| check::workflow(lines, &directives, &proposal::known(view)));
    let found = checked.err().map(|problems| problems.0).unwrap_or_default();
    found.into_iter().map(|problem| (problem.index, problem.fault.to_string())).collect()
}

/// Takes a finalizer off.
pub(crate) fn without_finalizer<K: controller::Object>(
    object: &K,
    finalizer: &str,
) -> Option<Change> {
    let mut after = object.clone();
    after.finalizers_mut().retain(|name| name != finalizer);
    Change::patch(object, &after)
}
