//! The life of a workflow that this command makes: from Proposal to its end, whatever happens in between.
//!
//! What was made is removed: after a failure, and after a signal. The workflow of a command that is killed outright is torn down by
//! the coordinator once its lease is over.

use std::time::Duration;

use api::{Computes, Workflow, WorkflowState};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use workload::computes_of;

use super::drive::Drive;
use super::lease::{self, Renewal};
use crate::args::workflow::Owner;
use crate::failure::{self, Failure};
use nodeclient::Exit;
use nodeclient::Output;

/// Annotation of a workflow that a command of ours made.
const MARK: &str = "warren/made-by";
/// Between two attempts to reach an API that is away while a workflow is to end.
const AGAIN: Duration = Duration::from_secs(1);

/// One workflow of ours.
pub(crate) struct Life {
    pub client: Client,
    pub drive: Drive,
    pub namespace: String,
    /// For each state.
    pub patience: Duration,
    /// What is ours carries it: another workflow of the same name is never ended.
    mark: String,
    pub output: Output,
}

impl Life {
    /// Of a name that the caller chose or one of our own.
    pub(crate) fn new(client: Client, owner: &Owner, patience: Duration, output: Output) -> Self {
        let name =
            owner.name.clone().unwrap_or_else(|| format!("warren-{:08x}", fastrand::u32(..)));
        let drive = Drive::new(client.clone(), &owner.namespace, &name, output);
        let mark = format!("{:016x}", fastrand::u64(..));
        Self { client, drive, namespace: owner.namespace.clone(), patience, mark, output }
    }

    /// Creates it, marked as ours. No signal cuts this short: what may be made after all could not be removed.
    ///
    /// # Errors
    /// When the API refuses it or does not answer, or one of that name is there.
    pub(crate) async fn begin(&self, mut workflow: Workflow) -> Result<Workflow, Failure> {
        workflow.annotations_mut().insert(MARK.to_owned(), self.mark.clone());
        match timeout(self.patience, self.drive.create(&workflow)).await {
            Ok(created) => created,
            Err(_) => Err(Failure::new(Exit::Unreachable, "the API does not answer")),
        }
    }

    /// The same, of a workflow that goes by itself when this command is killed: it is kept until the renewal is dropped.
    ///
    /// # Errors
    /// The same.
    pub(crate) async fn begin_leased(&self, mut workflow: Workflow) -> Result<Renewal, Failure> {
        lease::FIRST.write(&mut workflow);
        let created = self.begin(workflow).await?;
        Ok(self.drive.renew(&created))
    }

    /// Asks for a state, waits for it, and tells how long it took.
    ///
    /// # Errors
    /// When it is not reached.
    pub(crate) async fn go_to(&self, state: &WorkflowState) -> Result<Workflow, Failure> {
        if *state != WorkflowState::Proposal {
            self.drive.ask_for(state, false).await?;
        }
        let workflow = self.drive.reach(state, self.patience).await?;
        self.note_duration(state, &workflow);
        Ok(workflow)
    }

    /// How long a state took.
    fn note_duration(&self, state: &WorkflowState, workflow: &Workflow) {
        let took = workflow.status.as_ref().map(|status| status.elapsed_time_last_state.as_str());
        let took = took
            .filter(|text| !text.is_empty())
            .map(|text| format!(" after {text}"))
            .unwrap_or_default();
        self.output.note(&format!("{}: {state}{took}", self.drive.name()));
    }

    /// Names the job's computes. Where its storage goes the engine decides, which knows what the rabbits have.
    ///
    /// # Errors
    /// When the API refuses it, or storage was made for other computes.
    pub(crate) async fn name_computes(
        &self,
        workflow: &Workflow,
        nodes: &[String],
    ) -> Result<(), Failure> {
        let name = computes_of(workflow);
        let computes: Api<Computes> = Api::namespaced(self.client.clone(), &self.namespace);
        let failed =
            |error| failure::api(format!("fill the Computes {}/{name}", self.namespace), &error);
        let known = computes.get(&name).await.map_err(failed)?;
        if known.names().eq(nodes) {
            return Ok(());
        }
        stays(workflow, &known)?;
        let data: Vec<_> = nodes.iter().map(|name| json!({"name": name})).collect();
        // Changes only the version that was read.
        let version = known.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version}, "data": data});
        let answer = computes.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        answer.map(drop).map_err(failed)
    }

    /// Tears it down and deletes it, and tells whether it was there; it repeats the request while the API is away.
    ///
    /// # Errors
    /// When it is still there in time, with what holds it and how to get rid of it.
    pub(crate) async fn end(&self) -> Result<bool, Failure> {
        let deadline = Instant::now() + self.patience;
        let remedy = |failure: Failure| {
            let name = self.drive.name();
            self.output.note(&format!(
                "the workflow {name} is still there: `warren workflow investigate {name}` shows what it waits for, `warren workflow purge {name}` how to get rid of it"
            ));
            failure
        };
        loop {
            match self.try_to_end().await {
                Err(failure)
                    if matches!(failure.exit, Exit::Unreachable) && Instant::now() < deadline =>
                {
                    self.output.progress(&format!("{}; trying again", failure.text()));
                    // It has nothing that could wake us.
                    sleep(AGAIN).await;
                }
                ended => return ended.map_err(remedy),
            }
        }
    }

    /// Deletes it from the state that it is in, and tells whether it was there: what only Teardown does is not done.
    ///
    /// # Errors
    /// When the API does not answer, or it is still there in time.
    pub(crate) async fn withdraw(&self) -> Result<bool, Failure> {
        if self.ours().await?.is_none() {
            return Ok(false);
        }
        self.drive.delete(self.patience).await?;
        self.output.note(&format!("{}: removed", self.drive.name()));
        Ok(true)
    }

    async fn ours(&self) -> Result<Option<Workflow>, Failure> {
        let found = self.drive.find().await?;
        Ok(found.filter(|workflow| workflow.annotations().get(MARK) == Some(&self.mark)))
    }

    async fn try_to_end(&self) -> Result<bool, Failure> {
        let Some(workflow) = self.ours().await? else { return Ok(false) };
        if workflow.spec.desired_state != WorkflowState::Teardown {
            self.drive.ask_for(&WorkflowState::Teardown, false).await?;
        }
        let ended = self.drive.reach(&WorkflowState::Teardown, self.patience).await?;
        self.note_duration(&WorkflowState::Teardown, &ended);
        self.drive.delete(self.patience).await?;
        self.output.note(&format!("{}: removed", self.drive.name()));
        Ok(true)
    }
}

/// What a life gave, when neither it nor its end failed; what failed first is returned, and the other told.
pub(crate) fn both<T>(
    output: Output,
    lived: Result<T, Failure>,
    ended: Result<bool, Failure>,
) -> Result<T, Failure> {
    match (lived, ended) {
        (Ok(lived), Ok(_)) => Ok(lived),
        (Err(failure), Ok(_)) | (Ok(_), Err(failure)) => Err(failure),
        (Err(first), Err(second)) => {
            output.failure(&second);
            Err(first)
        }
    }
}

/// Refuses to take storage from the computes that it was made for. Who named none before Setup may do so until they mount.
fn stays(workflow: &Workflow, computes: &Computes) -> Result<(), Failure> {
    let names: Vec<&str> = computes.names().collect();
    let later = WorkflowState::ORDER.iter().skip_while(|state| **state != WorkflowState::DataIn);
    let status = workflow.status.as_ref();
    let is_made = later.into_iter().any(|state| *state == workflow.spec.desired_state)
        || status.is_some_and(|one| one.ready && one.state == Some(WorkflowState::Setup));
    if names.is_empty() || !is_made {
        return Ok(());
    }
    let names = directive::hostlist::compress(&names);
    let text = format!(
        "Setup is done, and the storage was made for {names}: other computes cannot be named any more"
    );
    Err(Failure::new(Exit::Usage, text)
        .remedy("go on without naming any, or tear it down and create another workflow"))
}

/// A new workflow in Proposal.
pub(crate) fn proposal(
    name: &str,
    owner: &Owner,
    wlm: &str,
    job: &str,
    directives: Vec<String>,
) -> Workflow {
    let user = owner.user.unwrap_or_else(|| nix::unistd::geteuid().as_raw());
    let group = owner.group.unwrap_or_else(|| nix::unistd::getegid().as_raw());
    workload::job(&owner.namespace, name, (wlm, job), (user, group), directives)
}

/// The directives in texts of which each may hold several.
///
/// # Errors
/// When one is no directive.
pub(crate) fn directives(texts: &[String]) -> Result<Vec<String>, Failure> {
    let lines: Vec<String> = texts.iter().flat_map(|text| directive::split(text)).collect();
    for line in &lines {
        line.parse::<directive::Directive>().map_err(|error| {
            Failure::new(Exit::Usage, format!("directive `{line}`")).because(&error)
        })?;
    }
    Ok(lines)
}
