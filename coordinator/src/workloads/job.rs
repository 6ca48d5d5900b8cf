//! One job of one call: its Workflow is read, asked for states and waited for. Nothing is remembered between calls.

use std::sync::Arc;
use std::time::Duration;

use api::names::{STORAGE_NAMESPACE, SYSTEM_CONFIGURATION};
use api::{Computes, Storage, SystemStatus, Workflow, WorkflowState};
use jiff::Timestamp;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt};
use proto::v1::{JobId, Role, Workload};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, timeout};
use tonic::{Code, Status};
use workload::{Flow, Objects, Refused, Unreached, computes_of, gather, kinds};

use super::answer::{self, Ending};
use super::caller::Caller;
use super::conditions::{Facts, conditions};
use super::deadlines::{ANNOTATION, Deadlines, Record};
use super::lose::after_losing;
use super::request::{Limit, NAMESPACE};
use super::step::{Step, step};
use super::tolerance::{self, Tolerance};
use crate::hub::Hub;

/// Who had a job aborted, when and why.
pub(super) const ABORTED: &str = "warren/aborted";

/// How long the engine may take to make a Computes in Proposal.
const SOON: Duration = Duration::from_secs(10);

/// One job, for one call.
#[derive(Clone)]
pub(super) struct Job {
    pub client: Client,
    pub hub: Arc<Hub>,
    /// Becomes true when the coordinator stops.
    pub stop: Receiver<bool>,
    pub flow: Flow,
    pub id: JobId,
    pub caller: Caller,
}

/// How far a call got.
type Ended = Result<(Workflow, Ending), Status>;

impl Job {
    /// The Workflow, if there is one of this job that the caller may act on.
    ///
    /// # Errors
    /// When it is somebody else's, or the API does not answer.
    pub(super) async fn find(&self) -> Result<Option<Workflow>, Status> {
        let Some(workflow) = self.flow.find().await.map_err(|error| refused(&error))? else {
            return Ok(None);
        };
        if !answer::is_of(&workflow, &self.id) {
            return Ok(None);
        }
        self.caller.check(&workflow)?;
        Ok(Some(workflow))
    }

    /// The same, of a job that must be there.
    ///
    /// # Errors
    /// The same, and when it is not there.
    pub(super) async fn get(&self) -> Result<Workflow, Status> {
        self.find().await?.ok_or_else(|| {
            Status::not_found(format!(
                "argument job: there is no job {} of {}; call Create first",
                self.id.job, self.id.manager
            ))
        })
    }

    /// Creates the Workflow, unless it is there and the same.
    ///
    /// # Errors
    /// When the directives are refused, or another job has its name.
    pub(super) async fn create(
        &self,
        mut wanted: Workflow,
        tolerated: u32,
        limit: Limit,
    ) -> Result<Workflow, Status> {
        let mut deadlines = Deadlines::default();
        let owner = self.caller.to_string();
        deadlines.set(&WorkflowState::Proposal, owner, Timestamp::now(), limit.within, false);
        wanted.annotations_mut().insert(ANNOTATION.to_owned(), deadlines.text());
        if tolerated > 0 {
            let tolerance = Tolerance { nodes: tolerated, lost: Vec::new() };
            wanted.annotations_mut().insert(tolerance::ANNOTATION.to_owned(), tolerance.text());
        }
        let error = match self.flow.create(&wanted).await {
            Ok(created) => return Ok(created),
            Err(error) if error.is_conflict() => error,
            Err(error) => return Err(refused(&error)),
        };
        let known = self.flow.find().await.map_err(|error| refused(&error))?;
        let Some(known) = known else { return Err(refused(&error)) };
        self.caller.check(&known)?;
        match answer::difference(&known, &wanted) {
            None => Ok(known),
            Some(field) => Err(Status::already_exists(format!(
                "argument job: there is a job {} of {} already, with another {field}; tear it down first, or name another",
                self.id.job, self.id.manager
            ))),
        }
    }

    /// Brings it to a state through all before, and waits until that is ready.
    ///
    /// # Errors
    /// When the API refuses it or does not answer, and when the coordinator stops. What else keeps it from there is told.
    pub(super) async fn go_to(
        &self,
        mut workflow: Workflow,
        target: &WorkflowState,
        nodes: &[String],
        mut limit: Limit,
    ) -> Ended {
        loop {
            let (asked, waited_for) = match step(&workflow, target) {
                Step::Over => return Ok((workflow, Ending::Over)),
                Step::Reached => return Ok((workflow, Ending::Done)),
                Step::Ask(state) => (Some(state.clone()), state),
                Step::Wait(state) => (None, state),
            };
            match &asked {
                Some(WorkflowState::Setup) => self.place(&workflow, nodes).await?,
                Some(WorkflowState::DataIn | WorkflowState::PreRun) => {
                    self.leave_out_lost(&workflow).await?;
                }
                _ => {}
            }
            let Some((written, record)) = self.ask(&workflow, asked, target, limit).await? else {
                workflow = self.get().await?;
                continue;
            };
            // The repetition of a conflict, and the next state, keep to what is written down.
            limit.renew = false;
            workflow = written;
            let is_late = record.due <= Timestamp::now();
            if !is_late && !limit.waits {
                return Ok((workflow, Ending::Asked));
            }
            let reached = if is_late {
                Err(Unreached::Late)
            } else {
                self.reach(&waited_for, &record).await?
            };
            let ending = match reached {
                Ok(reached) => {
                    workflow = reached;
                    continue;
                }
                Err(Unreached::Late) => Ending::Late(record),
                Err(Unreached::Failed(message)) => Ending::Failed(message),
                Err(Unreached::Gone | Unreached::Over) => return Ok((workflow, Ending::Over)),
                Err(Unreached::Ended) => {
                    return Err(Status::unavailable("the watch ended; call again"));
                }
            };
            match self.go_on_without(&waited_for).await? {
                Some(forced) => workflow = forced,
                None => return Ok((self.get().await?, ending)),
            }
        }
    }

    /// Writes down the deadline and asks for a state, in one change of the version that was read; `None` when that one is past.
    async fn ask(
        &self,
        workflow: &Workflow,
        state: Option<WorkflowState>,
        target: &WorkflowState,
        limit: Limit,
    ) -> Result<Option<(Workflow, Record)>, Status> {
        let now = Timestamp::now();
        let mut deadlines = Deadlines::of(workflow);
        let before = deadlines.clone();
        if let Some(state) = &state {
            deadlines.settle(workflow, state, now);
        }
        let owner = self.caller.to_string();
        let record = deadlines.set(target, owner, now, limit.within, limit.renew);
        if record.due <= now || (deadlines == before && state.is_none()) {
            return Ok(Some((workflow.clone(), record)));
        }
        let mut patch = json!({"metadata": {"annotations": {ANNOTATION: deadlines.text()}}});
        if let Some(state) = state {
            patch["spec"] = json!({"desiredState": state});
        }
        let written = self.write(workflow, patch).await?;
        Ok(written.map(|written| (written, record)))
    }

    /// Changes the version that was read; `None` when that one is past.
    pub(super) async fn write(
        &self,
        workflow: &Workflow,
        mut patch: Value,
    ) -> Result<Option<Workflow>, Status> {
        patch["metadata"]["resourceVersion"] = json!(workflow.resource_version());
        patch["metadata"]["uid"] = json!(workflow.uid());
        match self.flow.patch("change", &patch).await {
            Ok(written) => Ok(Some(written)),
            Err(error) if error.is_conflict() => Ok(None),
            Err(error) => Err(refused(&error)),
        }
    }

    /// Waits for a state until a deadline, or until the coordinator stops.
    async fn reach(
        &self,
        state: &WorkflowState,
        record: &Record,
    ) -> Result<Result<Workflow, Unreached>, Status> {
        tokio::select! {
            reached = self.flow.reach(state, moment(record.due), |_| {}) => Ok(reached),
            status = self.stopped() => Err(status),
        }
    }

    /// Names the job's nodes.
    async fn place(&self, workflow: &Workflow, nodes: &[String]) -> Result<(), Status> {
        if nodes.is_empty() {
            return Ok(());
        }
        let known = self.computes(workflow).await?;
        let names: Vec<&str> = known.names().collect();
        if names == nodes {
            return Ok(());
        }
        if !names.is_empty() {
            return Err(other_nodes(&names));
        }
        let data: Vec<Value> = nodes.iter().map(|name| json!({"name": name})).collect();
        self.fill(&known, data).await
    }

    /// Names the nodes of a Computes, in the version that was read.
    pub(super) async fn fill(&self, known: &Computes, data: Vec<Value>) -> Result<(), Status> {
        let patch =
            json!({"metadata": {"resourceVersion": known.resource_version()}, "data": data});
        let patched = self.computes_api();
        let patched =
            patched.patch(&known.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map(drop).map_err(|source| {
            refused(&Refused { what: format!("fill the Computes {}", known.name_any()), source })
        })
    }

    /// Checks that a repeated Setup names the nodes of the first.
    ///
    /// # Errors
    /// When it names others.
    pub(super) async fn check_nodes(
        &self,
        workflow: &Workflow,
        nodes: &[String],
    ) -> Result<(), Status> {
        if nodes.is_empty() || workflow.spec.desired_state == WorkflowState::Proposal {
            return Ok(());
        }
        let known = self.computes(workflow).await?;
        let names: Vec<&str> = known.names().collect();
        let tolerance = Tolerance::of(workflow);
        let left = || nodes.iter().filter(|node| !tolerance.is_left_out(node));
        let is_same = names == nodes || left().eq(names.iter().copied());
        if is_same { Ok(()) } else { Err(other_nodes(&names)) }
    }

    fn computes_api(&self) -> Api<Computes> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// The job's Computes, which the engine makes in Proposal.
    pub(super) async fn computes(&self, workflow: &Workflow) -> Result<Computes, Status> {
        let name = computes_of(workflow);
        let is_there = |known: Option<&Computes>| known.is_some();
        let made = await_condition(self.computes_api(), &name, is_there);
        match timeout(SOON, made).await {
            Ok(Ok(Some(known))) => Ok(known),
            Ok(Err(error)) => Err(Status::unavailable(format!(
                "get the Computes {name}: {}; call again",
                daemon::chain(&error)
            ))),
            Ok(Ok(None)) | Err(_) => Err(Status::unavailable(format!(
                "the engine made no Computes {name}: does it run? See the coordinator's --workflows; then call again"
            ))),
        }
    }

    /// Asks for Teardown at once, in a hurry, and writes down who asked and why.
    ///
    /// # Errors
    /// When the API refuses it or does not answer.
    pub(super) async fn abort(
        &self,
        mut workflow: Workflow,
        reason: &str,
    ) -> Result<Workflow, Status> {
        loop {
            if workflow.annotations().contains_key(ABORTED) {
                return Ok(workflow);
            }
            let now = Timestamp::now();
            let mut deadlines = Deadlines::of(&workflow);
            deadlines.settle(&workflow, &WorkflowState::Teardown, now);
            let who = format!("{} at {now:.0}: {reason}", self.caller);
            let patch = json!({
                "metadata": {"annotations": {ABORTED: who, ANNOTATION: deadlines.text()}},
                "spec": {"desiredState": WorkflowState::Teardown, "hurry": true},
            });
            match self.write(&workflow, patch).await? {
                Some(written) => return Ok(written),
                None => workflow = self.get().await?,
            }
        }
    }

    /// Has what is going on, or begins now, done in a hurry.
    ///
    /// # Errors
    /// When the API refuses it or does not answer.
    pub(super) async fn hurry(&self, mut workflow: Workflow) -> Result<Workflow, Status> {
        while !workflow.spec.hurry {
            let mut deadlines = Deadlines::of(&workflow);
            deadlines.settle(&workflow, &WorkflowState::Teardown, Timestamp::now());
            let patch = json!({
                "metadata": {"annotations": {ANNOTATION: deadlines.text()}},
                "spec": {"desiredState": WorkflowState::Teardown, "hurry": true},
            });
            workflow = match self.write(&workflow, patch).await? {
                Some(written) => written,
                None => self.get().await?,
            };
        }
        Ok(workflow)
    }

    /// Deletes what is torn down, and waits until it is gone.
    ///
    /// # Errors
    /// When the API refuses it or does not answer, and when the coordinator stops.
    pub(super) async fn remove(&self, mut workflow: Workflow, limit: Limit) -> Ended {
        let target = WorkflowState::Teardown;
        let record = loop {
            // Who finds it torn down already has set no deadline yet.
            if let Some((written, record)) = self.ask(&workflow, None, &target, limit).await? {
                workflow = written;
                break record;
            }
            match self.find().await? {
                Some(known) => workflow = known,
                None => return Ok((workflow, Ending::Done)),
            }
        };
        self.flow.delete(workflow.uid()).await.map_err(|error| refused(&error))?;
        if !limit.waits {
            return Ok((workflow, Ending::Asked));
        }
        tokio::select! {
            gone = self.flow.gone(moment(record.due), |_| {}) => match gone {
                Ok(()) => Ok((workflow, Ending::Done)),
                Err(Unreached::Ended) => Err(Status::unavailable("the watch ended; call again")),
                Err(_) => Ok((workflow, Ending::Late(record))),
            },
            status = self.stopped() => Err(status),
        }
    }

    /// Returns when the coordinator stops.
    pub(super) async fn stopped(&self) -> Status {
        let mut stop = self.stop.clone();
        // If the sender is gone the coordinator stops as well.
        let _ = stop.wait_for(|stop| *stop).await;
        Status::unavailable("the coordinator stops; call again")
    }

    /// The answer, with all that is known of the job's nodes.
    ///
    /// # Errors
    /// When the API does not answer: nothing can be said of nodes that were not looked at.
    pub(super) async fn answer(
        &self,
        workflow: &Workflow,
        ending: &Ending,
    ) -> Result<Workload, Status> {
        let objects = self.objects(workflow).await?;
        let facts = self.facts().await?;
        let nodes = conditions(&objects, &facts);
        let now = Timestamp::now();
        let mut told = answer::workload(&self.id, workflow, now);
        if !matches!(ending, Ending::Done) {
            told.waits_for =
                workload::waits::waits(&objects).iter().map(|one| one.line(now)).collect();
        }
        let tolerance = Tolerance::of(workflow);
        if tolerance.nodes > 0
            && matches!(ending, Ending::Late(_) | Ending::Failed(_))
            && let Err(why) = after_losing(&tolerance, workflow, &objects, &facts)
        {
            told.waits_for.push(format!("it does not go on without lost computes: {why}"));
        }
        told.nodes = nodes;
        Ok(answer::ended(told, workflow, ending))
    }

    /// All objects of a Workflow.
    pub(super) async fn objects(&self, workflow: &Workflow) -> Result<Objects, Status> {
        let gathered = gather(&self.client, &kinds(), NAMESPACE, self.flow.name()).await;
        let mut objects = gathered.map_err(|error| refused(&error))?;
        objects.workflow = Some(workflow.clone());
        Ok(objects)
    }

    /// What is known of the machine.
    pub(super) async fn facts(&self) -> Result<Facts, Status> {
        let mut facts = Facts::default();
        for record in self.hub.nodes().nodes {
            if record.role() == Role::Rabbit {
                facts.rabbits.insert(record.node.clone());
            }
            if record.connected {
                facts.connected.insert(record.node.clone());
            } else if !record.certificate.is_empty() {
                facts.shut_out.insert(record.node.clone(), record.certificate.clone());
            }
            if !record.rabbit.is_empty() && record.rabbit != record.node {
                facts.site.rabbit_of.insert(record.node, record.rabbit);
            }
        }
        let storages = self.list::<Storage>("Storages").await?;
        facts.site.storages =
            storages.into_iter().map(|one| (one.name_any(), Arc::new(one))).collect();
        let mut status = self.list::<SystemStatus>("SystemStatuses").await?;
        status.retain(|one| one.name_any() == SYSTEM_CONFIGURATION);
        facts.site.status = status.pop().map(Arc::new);
        Ok(facts)
    }

    async fn list<K>(&self, what: &str) -> Result<Vec<K>, Status>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), STORAGE_NAMESPACE);
        let listed = api.list(&ListParams::default()).await;
        let listed = listed
            .map_err(|source| refused(&Refused { what: format!("list the {what}"), source }))?;
        Ok(listed.items)
    }
}

/// When a moment of the calendar is, for timers.
pub(super) fn moment(due: Timestamp) -> Instant {
    let left = due.duration_since(Timestamp::now());
    Instant::now() + Duration::try_from(left).unwrap_or_default()
}

fn other_nodes(names: &[&str]) -> Status {
    let names = directive::hostlist::compress(names);
    Status::failed_precondition(format!(
        "argument nodes: the job's nodes are {names:?}, as its first Setup named them; name those or none, or tear the job down first"
    ))
}

/// What the API did not do, for the caller.
pub(super) fn refused(error: &Refused) -> Status {
    let Some(answer) = error.answer() else {
        return Status::unavailable(format!(
            "{error}: {}; the API is away, call again",
            daemon::chain(&error.source)
        ));
    };
    let code = match answer.code {
        _ if error.is_about_directives() => Code::InvalidArgument,
        400 | 413 | 415 | 422 => Code::InvalidArgument,
        404 => Code::NotFound,
        409 => Code::Aborted,
        429 | 500..=599 => Code::Unavailable,
        _ => Code::FailedPrecondition,
    };
    Status::new(code, format!("{error}: {}", answer.message))
}
