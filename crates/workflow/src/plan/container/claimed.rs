//! Where several coordinators drive workflows, one of them claims the containers of a directive: the ContainerRun
//! names this coordinator as the holder of the claim. Only the holder creates, changes and removes these containers.
//! The ContainerRun also records their progress: the holder creates containers once the API has stored the phase
//! `Starting`, and a state of the workflow is done once the ContainerRun says so too.

use std::collections::BTreeSet;

use api::{
    ContainerRun, ContainerRunPhase as Phase, ContainerRunSpec, ContainerRunStatus, NodeContainers,
    PersistentVolume, Severity, WorkflowState,
};
use containers::claim::{
    Holder,
    plan::{OnRabbit, RabbitState as State, Step, View as Known, plan},
};
use k8s_openapi::api::{batch::v1::Job, core::v1::PersistentVolumeClaim};
use kube::{Resource, ResourceExt};

use crate::{
    change::{Change, ClaimRef},
    names::{add_directive_labels, directive_object_name, owned_metadata},
    objects::view::{Containers as Objects, View},
    plan::copies,
    progress::{Outcome, Progress},
};

/// A run fails after this many claims if none of the claiming coordinators has started its containers.
const CLAIMS: i32 = 10;
/// The reason why a run waits while no coordinator has claimed it.
const UNCLAIMED: &str = "a claim of its containers by a coordinator";

/// Returns the changes that this coordinator may make now, or the write by which it claims the run or
/// records the run's progress.
pub fn by_holder(
    view: &View<'_>,
    index: usize,
    state: &WorkflowState,
    progress: Progress,
) -> Progress {
    let Some(me) = &view.site.settings.claims_as else { return progress };
    let is_wanted = *state != WorkflowState::Teardown;
    let Some(run) = &view.directives[index].containers.run else {
        return if progress.changes.is_empty() {
            progress
        } else {
            wait_for(&progress.outcome, UNCLAIMED).with([new_run(view, index, is_wanted)])
        };
    };
    if !is_wanted && run.spec.priority > 0 {
        let mut after = ContainerRun::clone(run);
        after.spec.priority = 0;
        return wait_for(&progress.outcome, "the end of its ContainerRun")
            .with(Change::patch(&**run, &after));
    }
    let existing = &view.directives[index].containers;
    match next_step(view, me, run, observed_state(existing, state, &progress)) {
        Step::Write(status) => {
            let mut after = ContainerRun::clone(run);
            after.status = Some(status);
            wait_for(&progress.outcome, UNCLAIMED).with(Change::status(&**run, &after))
        }
        Step::Wait | Step::Prepare | Step::Start | Step::Stop | Step::CleanUp => {
            require_claim(view, me, run, state, progress)
        }
    }
}

/// Creates the ContainerRun of a directive. Kubernetes deletes it together with its workflow.
fn new_run(view: &View<'_>, index: usize, is_wanted: bool) -> Change {
    let copies = copies::unfinished_runs(view);
    let copy = copies.into_iter().find(|(copy, _)| *copy == index);
    let rabbit_of = |compute| view.site.rabbit_of.get(compute).cloned();
    let rabbits: BTreeSet<String> = match copy {
        Some((_, run)) => run.rabbits.into_iter().collect(),
        None => view.computes().filter_map(rabbit_of).collect(),
    };
    let spec = ContainerRunSpec {
        rabbits: rabbits.into_iter().collect(),
        priority: i64::from(is_wanted),
        suspend: false,
        max_claim_attempts: CLAIMS,
    };
    let mut run = ContainerRun::new(&directive_object_name(&view.workflow, index), spec);
    let metadata = owned_metadata(&view.workflow, &directive_object_name(&view.workflow, index));
    run.metadata = add_directive_labels(metadata, &view.workflow, index);
    Change::create(&run)
}

fn next_step(view: &View<'_>, me: &Holder, run: &ContainerRun, state: State) -> Step {
    let claims = &view.site.claims;
    let holder = run.status.as_ref().map(|status| status.claim.holder.as_str());
    let known = Known {
        me,
        may_act: claims.may_act(),
        holder_expired: holder.is_some_and(|holder| claims.is_expired(holder)),
        refused_with: 0,
        rabbits: &[OnRabbit { name: String::new(), state }],
    };
    plan(run, &known)
}

/// Returns the state of all containers together, derived from the plan for the workflow's state.
fn observed_state(existing: &Objects, state: &WorkflowState, progress: &Progress) -> State {
    let is_there = !existing.is_gone();
    if *state == WorkflowState::Teardown {
        return match (is_there, progress.changes.is_empty()) {
            (true, _) => State::Ready,
            (false, false) => State::Succeeded,
            (false, true) => State::Nothing,
        };
    }
    let is_ready = *state == WorkflowState::PreRun;
    match &progress.outcome {
        Outcome::Failed(error) if is_there && error.severity == Severity::Fatal => {
            State::Failed(error.user_message.clone().unwrap_or(error.debug_message.clone()))
        }
        Outcome::Done if is_ready => State::Ready,
        Outcome::Done => State::Succeeded,
        // A rabbit that is silent may or may not run containers.
        Outcome::Failed(_) if is_there => State::Unknown,
        _ if is_there && is_ready => State::Starting,
        _ if is_there => State::Ready,
        _ if progress.changes.iter().any(makes_containers) => State::Prepared,
        _ => State::Nothing,
    }
}

/// Lets only the claim's holder change containers: each of its changes is made only if it still has the claim
/// ([`Change::IfClaimed`]). Other coordinators make no changes, and wait until the run says that the state is done.
fn require_claim(
    view: &View<'_>,
    me: &Holder,
    run: &ContainerRun,
    state: &WorkflowState,
    progress: Progress,
) -> Progress {
    let status = run.status.as_ref();
    let own_status =
        status.filter(|status| status.claim.holder == me.as_str() && view.site.claims.may_act());
    let Some(status) = own_status else {
        let wait_for_holder = |status: &ContainerRunStatus| {
            format!("coordinator {}, which creates these containers", status.claim.holder)
        };
        let is_stored = status.is_some_and(|status| {
            let is_ready = *state == WorkflowState::PreRun && status.phase == Phase::Running;
            is_ready || status.phase.is_final()
        });
        return match progress.outcome {
            Outcome::Done if is_stored => Progress { changes: Vec::new(), ..progress },
            Outcome::Done | Outcome::Working => {
                Progress::wait(status.map_or_else(|| UNCLAIMED.to_owned(), wait_for_holder))
            }
            Outcome::Wait(_) | Outcome::Queued(_) | Outcome::Failed(_) => {
                Progress { changes: Vec::new(), ..progress }
            }
        };
    };
    let may_make = matches!(status.phase, Phase::Starting | Phase::Running);
    let by = ClaimRef {
        namespace: run.namespace().unwrap_or_default(),
        name: run.name_any(),
        uid: run.uid().unwrap_or_default(),
        holder: status.claim.holder.clone(),
        epoch: status.claim.epoch,
    };
    let changes =
        progress.changes.into_iter().filter(|change| may_make || !makes_containers(change));
    let changes = changes.map(|change| Change::IfClaimed(by.clone(), Box::new(change))).collect();
    Progress { changes, ..progress }
}

/// Returns true if a change creates containers, or volumes for them: both wait for the phase `Starting`.
fn makes_containers(change: &Change) -> bool {
    let kinds = [
        Job::kind(&()),
        NodeContainers::kind(&()),
        PersistentVolume::kind(&()),
        PersistentVolumeClaim::kind(&()),
    ];
    let Change::Create(target, _) = change else { return false };
    kinds.iter().any(|kind| *kind == target.resource.kind)
}

/// Returns a progress that has no changes and is not done: Done and Working become a wait for `what`; a wait
/// or an error stays.
fn wait_for(outcome: &Outcome, what: &str) -> Progress {
    match outcome {
        Outcome::Failed(error) => Progress::failed(error.clone()),
        Outcome::Wait(why) | Outcome::Queued(why) => Progress::wait(why.clone()),
        Outcome::Done | Outcome::Working => Progress::wait(what),
    }
}
