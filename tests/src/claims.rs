//! Two coordinators claim the same ContainerRun, that is, the right to work on it, on the embedded API or a real
//! server. The server refuses the later claim.

use std::{collections::BTreeMap, fmt, time::Duration};

use anyhow::{Context, ensure};
use api::{
    ContainerRun, ContainerRunPhase as Phase, ContainerRunSpec, ContainerRunStatus as Status,
    Workflow, WorkflowState, names::label,
};
use containers::claim::Holder;
use controller::{Event, Retry};
use k8s_openapi::api::batch::v1::Job;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use workflow::{
    Settings,
    change::Change,
    claims::{LeaseStates, SharedLease, leases, renew},
    execute::{ExecutedChanges, execute},
    plan::container::by_holder,
    progress::Progress,
    world::World,
};

/// Namespace of the ContainerRuns (here: runs) of these tests.
pub const NAMESPACE: &str = "default";
/// The run of the first directive of the workflow `contested`.
const RUN: &str = "contested-0";
/// The uid of the workflow that the runs belong to.
const UID: &str = "00000000-0000-4000-8000-000000000001";
/// A Lease counts as expired when it was seen unchanged for this number of seconds.
const EXPIRED: u64 = 30;

/// A process of a coordinator.
pub struct Coordinator {
    client: Client,
    me: Holder,
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator").field("me", &self.me).finish_non_exhaustive()
    }
}

/// The state of the workflow, and the changes that the engine found necessary for the workflow's containers in that
/// state.
type Found = (WorkflowState, Progress);

fn waits_for_storage() -> Found {
    (WorkflowState::PreRun, Progress::wait("its storage"))
}

fn needs_a_job() -> Found {
    (WorkflowState::PreRun, Progress::default().with([Change::create(&Job::default())]))
}

fn needs_no_change_in(state: WorkflowState) -> Found {
    (state, Progress::default())
}

/// Returns the progress of a workflow in Teardown. The only change in it sets a label on the run; this change stands
/// for the removal of containers.
fn needs_removal(run: &ContainerRun) -> Found {
    let mut after = run.clone();
    after.labels_mut().insert("removed".to_owned(), "containers".to_owned());
    (WorkflowState::Teardown, Progress::default().with(Change::patch(run, &after)))
}

/// Returns the workflow that the runs belong to. It is given to the coordinators only; the server does not have it.
fn workflow() -> anyhow::Result<Workflow> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "contested", "namespace": NAMESPACE, "uid": UID},
        "spec": {
            "desiredState": "PreRun", "wlmID": "test", "jobID": 7, "userID": 1, "groupID": 1,
            "hurry": false, "forceReady": false, "dwDirectives": ["#DW container name=c profile=p"],
        },
    }))?)
}

impl Coordinator {
    /// Creates a coordinator that the server knows as `pod`.
    #[must_use]
    pub fn new(client: Client, pod: &str, nonce: &str) -> Self {
        Self { client, me: Holder::new(pod, nonce) }
    }

    /// Returns the coordinator's state after `seconds` without a renewal of the other coordinator's Lease.
    fn world(&self, run: &ContainerRun, seconds: u64) -> anyhow::Result<World> {
        let settings = Settings { claims_as: Some(self.me.clone()), ..Settings::default() };
        let mut world = World::new(settings);
        world.take(Event::Listed(vec![Ok(workflow()?)]));
        world.take(Event::Listed(vec![Ok(run.clone())]));
        for seconds in (0..=seconds).step_by(10) {
            let at = Duration::from_secs(seconds);
            world.take_leases(&LeaseStates { may_act: true, leases: Some(BTreeMap::new()), at });
        }
        Ok(world)
    }

    /// Returns the changes that the coordinator plans.
    fn plan(
        &self,
        run: &ContainerRun,
        (state, progress): Found,
        seconds: u64,
    ) -> anyhow::Result<Vec<Change>> {
        let world = self.world(run, seconds)?;
        let view = world.view(&(NAMESPACE.to_owned(), "contested".to_owned()));
        Ok(by_holder(&view.context("no workflow")?, 0, &state, progress).changes)
    }

    /// Makes changes as the engine does.
    async fn make(&self, changes: Vec<Change>) -> ExecutedChanges {
        let lease = SharedLease::default();
        // The Lease of this coordinator stays valid for the whole test.
        lease.record_renewal(Duration::MAX);
        execute(&self.client, changes, &lease).await
    }

    /// Plans one change of the run and sends it. The API must store it.
    async fn store(
        &self,
        run: &ContainerRun,
        found: Found,
        seconds: u64,
    ) -> anyhow::Result<ContainerRun> {
        let mut outcome = self.make(self.plan(run, found, seconds)?).await;
        ensure!(
            outcome.failures.is_empty() && outcome.stored.len() == 1,
            "{}: {outcome:?}",
            self.me
        );
        Ok(outcome.stored.remove(0).object.try_parse()?)
    }

    /// Plans one change of the run and sends it. The API must refuse it, and the coordinator must then plan again
    /// soon. Returns the reason.
    async fn lose(&self, run: &ContainerRun, found: Found) -> anyhow::Result<String> {
        let mut outcome = self.make(self.plan(run, found, 0)?).await;
        ensure!(
            outcome.stored.is_empty() && outcome.failures.len() == 1,
            "{}: {outcome:?}",
            self.me
        );
        let (why, retry) = outcome.failures.remove(0);
        ensure!(retry == Retry::Soon, "{}: {}: {retry:?}", self.me, why.text);
        Ok(why.text)
    }

    /// Sends a patch of the status that no coordinator would send, and returns the API's refusal.
    async fn refusal_of(&self, run: &ContainerRun, status: Value) -> anyhow::Result<String> {
        let patch = Patch::Merge(json!({"status": status}));
        refusal(&self.client, run, &patch).await
    }
}

/// Returns the API's refusal of a patch of a run's status.
///
/// # Errors
/// When the API does not refuse the patch.
pub async fn refusal(
    client: &Client,
    run: &ContainerRun,
    patch: &Patch<Value>,
) -> anyhow::Result<String> {
    let runs: Api<ContainerRun> = Api::namespaced(client.clone(), NAMESPACE);
    match runs.patch_status(&run.name_any(), &PatchParams::default(), patch).await {
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(status.message.clone()),
        answer => anyhow::bail!("not refused by a rule: {answer:?}"),
    }
}

fn names_rules(refusal: &str, rules: &[&str]) -> anyhow::Result<()> {
    let missing: Vec<_> = rules.iter().filter(|rule| !refusal.contains(**rule)).collect();
    ensure!(missing.is_empty(), "no word of {missing:?}: {refusal}");
    Ok(())
}

fn status(run: &ContainerRun) -> anyhow::Result<Status> {
    run.status.clone().context("a run without status")
}

/// Runs scenarios S1.1, S1.2, S2.3, S2.4 and S2.10 of `crates/containers/src/claim/scenarios.rs` on a server, with the
/// server's rules and resource versions.
///
/// # Errors
/// When the server accepts a change that it must refuse, or refuses one that it must accept.
pub async fn contested(
    administrator: &Client,
    c1: &Coordinator,
    c2: &Coordinator,
) -> anyhow::Result<()> {
    let runs: Api<ContainerRun> = Api::namespaced(administrator.clone(), NAMESPACE);
    let spec = ContainerRunSpec {
        rabbits: vec!["r".to_owned()],
        priority: 1,
        suspend: false,
        max_claim_attempts: 10,
    };
    let mut queued = ContainerRun::new(RUN, spec);
    let labels = [(label::WORKFLOW_UID, UID), (label::DIRECTIVE_INDEX, "0")];
    queued.labels_mut().extend(labels.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let queued = runs.create(&PostParams::default(), &queued).await?;

    let claimed =
        c1.store(&queued, waits_for_storage(), 0).await.context("S1.1: C1 claims the run")?;
    c2.lose(&queued, waits_for_storage()).await.context("S1.1: C2 does not get the claim")?;
    let first = status(&claimed)?;
    ensure!((first.claim.epoch, first.attempt) == (1, 1), "{first:?}");

    let me = c2.me.as_str();
    let same_epoch = json!({"claim": {"holder": me}, "writer": {"holder": me, "seq": 2}});
    names_rules(&c2.refusal_of(&claimed, same_epoch).await?, &["R2"]).context("S1.2")?;

    let waits = c2.plan(&claimed, waits_for_storage(), EXPIRED - 10)?;
    ensure!(waits.is_empty(), "C1's Lease has not expired, but C2 plans {waits:?}");
    let taken = c2.store(&claimed, waits_for_storage(), EXPIRED).await;
    let taken = taken.context("S2.3: C2 takes over")?;
    let second = status(&taken)?;
    ensure!((second.claim.epoch, second.attempt) == (2, 1), "{second:?}");
    c1.lose(&claimed, needs_a_job()).await.context("S2.3: a write after the claim was lost")?;
    let mut written_back = json!(first);
    written_back["writer"]["seq"] = json!(second.writer.seq + 1);
    names_rules(&c1.refusal_of(&taken, written_back).await?, &["R1", "R2"])
        .context("S2.3: read again")?;
    names_rules(&c1.refusal_of(&taken, json!({"phase": "Starting"})).await?, &["R5"])
        .context("S2.4")?;
    names_rules(&c2.refusal_of(&taken, json!({"message": "x"})).await?, &["V2"])
        .context("S2.4: message")?;
    let after = runs.get(RUN).await?;
    ensure!(after.status == taken.status, "a refusal changed {after:?}");

    finish_run(&runs, c1, c2, taken).await
}

/// Brings the run to its last phase, and checks that the API refuses every later change of the phase.
async fn finish_run(
    runs: &Api<ContainerRun>,
    c1: &Coordinator,
    c2: &Coordinator,
    mut run: ContainerRun,
) -> anyhow::Result<()> {
    for (found, phase) in [
        (needs_a_job(), Phase::Starting),
        (needs_no_change_in(WorkflowState::PreRun), Phase::Running),
        (needs_no_change_in(WorkflowState::PostRun), Phase::Succeeded),
    ] {
        run = c2.store(&run, found, 0).await?;
        ensure!(status(&run)?.phase == phase, "{run:?}");
    }
    let seq = status(&run)?.writer.seq + 1;
    let cancelled = json!({"phase": "Cancelled", "writer": {"seq": seq}});
    names_rules(&c2.refusal_of(&run, cancelled).await?, &["R6", "R7"]).context("S2.10")?;
    // The first change only sets the run's priority to 0, which says that the run is no longer wanted. The removal of
    // containers follows.
    let unwanted = c2.store(&run, needs_removal(&run), 0).await?;
    ensure!(
        unwanted.spec.priority == 0 && unwanted.labels().get("removed").is_none(),
        "{unwanted:?}"
    );
    let waits = c1.plan(&unwanted, needs_removal(&unwanted), 0)?;
    ensure!(waits.is_empty(), "C2 holds the run, but C1 plans {waits:?}");
    let removed = c2.store(&unwanted, needs_removal(&unwanted), 0).await?;
    ensure!(removed.labels().contains_key("removed"), "{removed:?}");
    runs.delete(RUN, &kube::api::DeleteParams::default()).await?;
    let why = c2.lose(&unwanted, needs_removal(&unwanted)).await.context("S1.5")?;
    ensure!(why == format!("claim 2 of ContainerRun {NAMESPACE}/{RUN} is lost"), "S1.5: {why}");
    Ok(())
}

/// Checks that each coordinator notices a renewal of the other coordinator's Lease, and also a missing renewal.
///
/// # Errors
/// When a Lease is not created, renewed or listed.
pub async fn renewed(c1: &Coordinator, c2: &Coordinator) -> anyhow::Result<()> {
    for coordinator in [c1, c2] {
        renew(&coordinator.client, NAMESPACE, &coordinator.me).await?;
    }
    let before = leases(&c1.client, NAMESPACE).await?;
    renew(&c2.client, NAMESPACE, &c2.me).await?;
    let after = leases(&c1.client, NAMESPACE).await?;
    let kept_its_lease = |coordinator: &Coordinator| {
        let me = coordinator.me.as_str();
        ensure!(before.contains_key(me) && after.contains_key(me), "{me}: {before:?} {after:?}");
        Ok(before[me] == after[me])
    };
    ensure!(kept_its_lease(c1)? && !kept_its_lease(c2)?, "{before:?} {after:?}");
    Ok(())
}
