//! The life of a workflow that this command creates: from Proposal to its removal.
//!
//! The command also removes the workflow after a failure and after a signal. After a SIGKILL, the coordinator tears
//! the workflow down once its lease has expired.

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
use cli::Exit;
use cli::Output;

/// Annotation with the mark of the command that created a workflow.
const MARK: &str = "warren/made-by";
/// Interval between two attempts to end a workflow while the API is unreachable.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A workflow of this command.
pub(crate) struct Life {
    pub client: Client,
    pub drive: Drive,
    pub namespace: String,
    /// Longest time to wait for each state.
    pub patience: Duration,
    /// Value of [`MARK`]: a workflow of the same name with another mark is never removed.
    mark: String,
    pub output: Output,
}

impl Life {
    /// Prepares a workflow with the name that the user chose, or with a random name.
    pub(crate) fn new(client: Client, owner: &Owner, patience: Duration, output: Output) -> Self {
        let name =
            owner.name.clone().unwrap_or_else(|| format!("warren-{:08x}", fastrand::u32(..)));
        let drive = Drive::new(client.clone(), &owner.namespace, &name, output);
        let mark = format!("{:016x}", fastrand::u64(..));
        Self { client, drive, namespace: owner.namespace.clone(), patience, mark, output }
    }

    /// Creates the workflow with this command's mark. No signal interrupts the creation: if the API created the
    /// workflow after the interruption, this command could not remove it.
    ///
    /// # Errors
    /// If the API refuses the workflow or does not answer, or a workflow of that name exists.
    pub(crate) async fn begin(&self, mut workflow: Workflow) -> Result<Workflow, Failure> {
        workflow.annotations_mut().insert(MARK.to_owned(), self.mark.clone());
        match timeout(self.patience, self.drive.create(&workflow)).await {
            Ok(created) => created,
            Err(_) => Err(Failure::new(Exit::Unreachable, "the API does not answer")),
        }
    }

    /// Creates the workflow with a lease, which is renewed until the renewal is dropped. If this command is killed,
    /// the lease expires and the coordinator removes the workflow.
    ///
    /// # Errors
    /// As [`Life::begin`].
    pub(crate) async fn begin_leased(&self, mut workflow: Workflow) -> Result<Renewal, Failure> {
        lease::FIRST.write(&mut workflow);
        let created = self.begin(workflow).await?;
        Ok(self.drive.renew(&created))
    }

    /// Requests a state, waits until it is ready, and prints the time it took.
    ///
    /// # Errors
    /// If the state is not reached.
    pub(crate) async fn go_to(&self, state: &WorkflowState) -> Result<Workflow, Failure> {
        if *state != WorkflowState::Proposal {
            self.drive.request(state, false).await?;
        }
        let workflow = self.drive.reach(state, self.patience).await?;
        self.note_duration(state, &workflow);
        Ok(workflow)
    }

    /// Prints the time that a state took.
    fn note_duration(&self, state: &WorkflowState, workflow: &Workflow) {
        let took = workflow.status.as_ref().map(|status| status.elapsed_time_last_state.as_str());
        let took = took
            .filter(|text| !text.is_empty())
            .map(|text| format!(" after {text}"))
            .unwrap_or_default();
        self.output.note(&format!("{}: {state}{took}", self.drive.name()));
    }

    /// Writes the job's computes. The engine then chooses rabbits for the job's storage, by the rabbits' capacity.
    ///
    /// # Errors
    /// If the API refuses the change, or storage was made for other computes.
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
        check_may_change(workflow, &known)?;
        let data: Vec<_> = nodes.iter().map(|name| json!({"name": name})).collect();
        // The patch changes only the version that was read.
        let version = known.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version}, "data": data});
        let answer = computes.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        answer.map(drop).map_err(failed)
    }

    /// Tears the workflow down and deletes it; retries while the API is unreachable. Returns
    /// whether the workflow existed.
    ///
    /// # Errors
    /// If the workflow still exists after `patience`. Prints how to investigate and remove it.
    pub(crate) async fn end(&self) -> Result<bool, Failure> {
        let deadline = Instant::now() + self.patience;
        let remedy = |failure: Failure| {
            let name = self.drive.name();
            self.output.note(&format!(
                "the workflow {name} still exists: `warren workflow investigate {name}` shows why it waits, `warren workflow purge {name}` how to remove it"
            ));
            failure
        };
        loop {
            match self.try_to_end().await {
                Err(failure)
                    if matches!(failure.exit, Exit::Unreachable) && Instant::now() < deadline =>
                {
                    self.output.progress(&format!("{}; trying again", failure.text()));
                    // The API cannot notify a client that is not connected.
                    sleep(RETRY_INTERVAL).await;
                }
                ended => return ended.map_err(remedy),
            }
        }
    }

    /// Deletes the workflow in its current state, without the steps of Teardown. Returns whether the workflow existed.
    ///
    /// # Errors
    /// If the API does not answer, or the workflow still exists after `patience`.
    pub(crate) async fn withdraw(&self) -> Result<bool, Failure> {
        if self.find_own().await?.is_none() {
            return Ok(false);
        }
        self.drive.delete(self.patience).await?;
        self.output.note(&format!("{}: removed", self.drive.name()));
        Ok(true)
    }

    /// Returns the workflow if it has this command's mark.
    async fn find_own(&self) -> Result<Option<Workflow>, Failure> {
        let found = self.drive.find().await?;
        Ok(found.filter(|workflow| workflow.annotations().get(MARK) == Some(&self.mark)))
    }

    async fn try_to_end(&self) -> Result<bool, Failure> {
        let Some(workflow) = self.find_own().await? else { return Ok(false) };
        if workflow.spec.desired_state != WorkflowState::Teardown {
            self.drive.request(&WorkflowState::Teardown, false).await?;
        }
        let workflow = self.drive.reach(&WorkflowState::Teardown, self.patience).await?;
        self.note_duration(&WorkflowState::Teardown, &workflow);
        self.drive.delete(self.patience).await?;
        self.output.note(&format!("{}: removed", self.drive.name()));
        Ok(true)
    }
}

/// Combines the result of a workflow's work with the result of its removal: returns the first failure, and
/// prints a second failure.
pub(crate) fn combine<T>(
    output: Output,
    result: Result<T, Failure>,
    removal: Result<bool, Failure>,
) -> Result<T, Failure> {
    match (result, removal) {
        (Ok(result), Ok(_)) => Ok(result),
        (Err(failure), Ok(_)) | (Ok(_), Err(failure)) => Err(failure),
        (Err(first), Err(second)) => {
            output.failure(&second);
            Err(first)
        }
    }
}

/// Refuses to change the computes once storage was made for them. Computes may still be named if none was named before.
fn check_may_change(workflow: &Workflow, computes: &Computes) -> Result<(), Failure> {
    let names: Vec<&str> = computes.names().collect();
    let later = WorkflowState::ORDER.iter().skip_while(|state| **state != WorkflowState::DataIn);
    let status = workflow.status.as_ref();
    let is_made = later.into_iter().any(|state| *state == workflow.spec.desired_state)
        || status.is_some_and(|status| status.ready && status.state == Some(WorkflowState::Setup));
    if names.is_empty() || !is_made {
        return Ok(());
    }
    let names = directive::hostlist::compress(&names);
    let text = format!(
        "Setup is done, and the storage was made for {names}: the computes cannot be changed any more"
    );
    Err(Failure::new(Exit::Usage, text)
        .remedy("leave out --nodes, or tear the workflow down and create another one"))
}

/// Returns a new workflow in Proposal.
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

/// Splits texts into directives, one per line.
///
/// # Errors
/// If a line is not a directive.
pub(crate) fn directives(texts: &[String]) -> Result<Vec<String>, Failure> {
    let lines: Vec<String> = texts.iter().flat_map(|text| directive::split(text)).collect();
    for line in &lines {
        line.parse::<directive::Directive>().map_err(|error| {
            Failure::new(Exit::Usage, format!("directive `{line}`")).because(&error)
        })?;
    }
    Ok(lines)
}
