//! Two coordinators claim the same run, on any server: the server refuses the later one.

use std::fmt;

use anyhow::{Context, ensure};
use api::{
    ContainerRun, ContainerRunPhase as Phase, ContainerRunSpec, ContainerRunStatus as Status,
};
use containers::claim::{
    Holder,
    plan::{OnRabbit, State, Step, View},
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use workflow::claims::{ClaimError, Next, leases, next, renew};

/// Where the runs of these tests are.
pub const NAMESPACE: &str = "default";

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

impl Coordinator {
    /// `pod` is what the server knows the client by.
    #[must_use]
    pub fn new(client: Client, pod: &str, nonce: &str) -> Self {
        Self { client, me: Holder::new(pod, nonce) }
    }

    async fn next(
        &self,
        run: &ContainerRun,
        state: State,
        takes: bool,
    ) -> Result<Next, ClaimError> {
        let rabbits = [OnRabbit { name: "r".to_owned(), state }];
        let view = View {
            me: &self.me,
            may_act: true,
            holder_expired: takes,
            refused_with: 0,
            rabbits: &rabbits,
        };
        next(&self.client, run, &view).await
    }

    /// Its next step must be a write that is stored.
    async fn stores(&self, run: &ContainerRun, state: State) -> anyhow::Result<ContainerRun> {
        match self.next(run, state, true).await? {
            Next::Stored(run) => Ok(*run),
            other => anyhow::bail!("{} stores nothing: {other:?}", self.me),
        }
    }

    async fn lost(&self, run: &ContainerRun, state: State) -> anyhow::Result<()> {
        let answer = self.next(run, state, false).await;
        ensure!(matches!(answer, Err(ClaimError::Lost(_))), "{}: {answer:?}", self.me);
        Ok(())
    }

    /// Patches the status as no coordinator would; gives the refusal.
    async fn refused(&self, run: &ContainerRun, status: Value) -> anyhow::Result<String> {
        let patch = Patch::Merge(json!({"status": status}));
        refusal(&self.client, run, &patch).await
    }
}

/// What the API says to a patch of a run's status; it must refuse it.
///
/// # Errors
/// When it does not refuse it.
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

fn says(refusal: &str, rules: &[&str]) -> anyhow::Result<()> {
    let missing: Vec<_> = rules.iter().filter(|rule| !refusal.contains(**rule)).collect();
    ensure!(missing.is_empty(), "no word of {missing:?}: {refusal}");
    Ok(())
}

fn status(run: &ContainerRun) -> anyhow::Result<Status> {
    run.status.clone().context("a run without status")
}

/// S1.1, S1.2, S2.3, S2.4 and S2.10 on a server, as its rules and versions have it.
///
/// # Errors
/// When something is not refused, or not done, that should be.
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
    let queued = runs.create(&PostParams::default(), &ContainerRun::new("contested", spec)).await?;

    let claimed = c1.stores(&queued, State::Nothing).await.context("S1.1: the first claims")?;
    c2.lost(&queued, State::Nothing).await.context("S1.1: the second")?;
    let first = status(&claimed)?;
    ensure!((first.claim.epoch, first.attempt) == (1, 1), "{first:?}");

    let me = c2.me.as_str();
    let same_epoch = json!({"claim": {"holder": me}, "writer": {"holder": me, "seq": 2}});
    says(&c2.refused(&claimed, same_epoch).await?, &["R2"]).context("S1.2")?;

    let taken = c2.stores(&claimed, State::Preparing).await.context("S2.3: C2 takes over")?;
    let second = status(&taken)?;
    ensure!((second.claim.epoch, second.attempt) == (2, 1), "{second:?}");
    c1.lost(&claimed, State::Prepared).await.context("S2.3: a write of what was read before")?;
    let mut written_back = json!(first);
    written_back["writer"]["seq"] = json!(second.writer.seq + 1);
    says(&c1.refused(&taken, written_back).await?, &["R1", "R2"]).context("S2.3: read again")?;
    says(&c1.refused(&taken, json!({"phase": "Starting"})).await?, &["R5"]).context("S2.4")?;
    says(&c2.refused(&taken, json!({"message": "x"})).await?, &["V2"]).context("S2.4: message")?;
    let after = runs.get("contested").await?;
    ensure!(after.status == taken.status, "a refusal changed {after:?}");

    finished(&runs, c1, c2, taken).await
}

/// The run is brought to its end, and its end stays.
async fn finished(
    runs: &Api<ContainerRun>,
    c1: &Coordinator,
    c2: &Coordinator,
    mut run: ContainerRun,
) -> anyhow::Result<()> {
    for (state, phase) in [
        (State::Prepared, Phase::Starting),
        (State::Ready, Phase::Running),
        (State::Succeeded, Phase::Succeeded),
    ] {
        run = c2.stores(&run, state).await?;
        ensure!(status(&run)?.phase == phase, "{run:?}");
    }
    let seq = status(&run)?.writer.seq + 1;
    let cancelled = json!({"phase": "Cancelled", "writer": {"seq": seq}});
    says(&c2.refused(&run, cancelled).await?, &["R6", "R7"]).context("S2.10")?;
    // Removal is planned from a read of this moment.
    let unwanted = Patch::Merge(json!({"spec": {"priority": 0}}));
    let read = runs.patch("contested", &PatchParams::default(), &unwanted).await?;
    let clean = c2.next(&read, State::Succeeded, false).await?;
    ensure!(clean == Next::Act(Step::CleanUp), "{clean:?}");
    runs.delete("contested", &kube::api::DeleteParams::default()).await?;
    let gone = c2.next(&read, State::Succeeded, false).await?;
    ensure!(gone == Next::Moved, "S1.5: {gone:?}");
    let waits = c1.next(&read, State::Succeeded, false).await?;
    ensure!(waits == Next::Act(Step::Wait), "it is C2's: {waits:?}");
    Ok(())
}

/// Each coordinator sees that another renewed its Lease, and that one did not.
///
/// # Errors
/// When a Lease is not made, renewed or listed.
pub async fn renewed(c1: &Coordinator, c2: &Coordinator) -> anyhow::Result<()> {
    for coordinator in [c1, c2] {
        renew(&coordinator.client, NAMESPACE, &coordinator.me).await?;
    }
    let before = leases(&c1.client, NAMESPACE).await?;
    renew(&c2.client, NAMESPACE, &c2.me).await?;
    let after = leases(&c1.client, NAMESPACE).await?;
    let seen = |coordinator: &Coordinator| {
        let me = coordinator.me.as_str();
        ensure!(before.contains_key(me) && after.contains_key(me), "{me}: {before:?} {after:?}");
        Ok(before[me] == after[me])
    };
    ensure!(seen(c1)? && !seen(c2)?, "{before:?} {after:?}");
    Ok(())
}
