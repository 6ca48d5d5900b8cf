//! The gRPC service `Workloads`, through which workload managers create, mount and remove the storage of jobs.
//!
//! The service holds no state. A call reads the job's Workflow, sets `desiredState` to one state after another, and
//! waits by watching. Facts that must outlive the call are in the Workflow: the desired state, the deadlines, the
//! caller that aborted the job. The service also writes the job's Computes; the engine does the rest.

mod answer;
mod caller;
mod capacity;
mod conditions;
mod deadlines;
pub(crate) mod job;
mod list;
mod lose;
mod objects;
mod request;
mod step;
mod tolerance;
mod watch;

use std::sync::Arc;

use api::WorkflowState;
use futures::stream;
use jiff::Timestamp;
use kube::Client;
use proto::v1::workloads_server::Workloads;
use proto::v1::{
    AbortRequest, CapacityRequest, CapacityResponse, CheckRequest, CheckResponse, CreateRequest,
    JobId, ListRequest, ListResponse, ObjectsRequest, OwnObject, PostRunRequest, SetupRequest,
    StartRequest, TeardownRequest, Workload, WorkloadRequest,
};
use tokio::sync::watch::Receiver;
use tonic::{Request, Response, Status};
use workflow::Rules;
use workload::Flow;

use crate::hub::Hub;
use crate::peer::Peer;
use answer::Ending;
use caller::Caller;
pub(crate) use caller::Managers;
use job::Job;
use request::{Limit, NAMESPACE};
use step::{Step, step, was_requested};
use watch::Watching;

type Listing = stream::Iter<std::vec::IntoIter<Result<OwnObject, Status>>>;
type Answer = Result<Response<Workload>, Status>;

/// The gRPC service `Workloads`, with the state that all calls share.
#[derive(Clone)]
pub(crate) struct WorkloadsService {
    client: Client,
    hub: Arc<Hub>,
    managers: Managers,
    rules: Rules,
    stop: Receiver<bool>,
}

impl std::fmt::Debug for WorkloadsService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkloadsService").field("managers", &self.managers).finish_non_exhaustive()
    }
}

impl WorkloadsService {
    pub(crate) fn new(
        client: Client,
        hub: Arc<Hub>,
        managers: Managers,
        rules: Rules,
        stop: Receiver<bool>,
    ) -> Self {
        Self { client, hub, managers, rules, stop }
    }

    /// Replaces presets by their arguments, so that a repeated call asks for what the Workflow has. Before the engine has
    /// read the site's rules it stays as it is, and the engine replaces presets.
    fn without_presets(&self, directives: Vec<String>) -> Result<Vec<String>, Status> {
        let Some(rules) = self.rules.get() else { return Ok(directives) };
        let expanded = rules.expand(&directives);
        expanded.map_err(|problems| Status::invalid_argument(problems.to_string()))
    }

    /// Returns the job that a request names, if the caller may act for the job, and the rest of the request.
    fn authorized_job<T>(
        &self,
        request: Request<T>,
        id: impl FnOnce(&mut T) -> Option<JobId>,
    ) -> Result<(Job, T), Status> {
        let caller = Caller::identify(&Peer::identify(&request)?, &self.managers)?;
        let mut request = request.into_inner();
        let (id, name) = request::job(id(&mut request))?;
        caller.check_manager(&id.manager)?;
        let flow = Flow::new(self.client.clone(), NAMESPACE, &name);
        let (client, hub, stop) = (self.client.clone(), self.hub.clone(), self.stop.clone());
        Ok((Job { client, hub, stop, flow, id, caller }, request))
    }
}

impl Job {
    /// Advances the job's Workflow to a state, and answers with the job's state at the end of the call.
    async fn advance_to(&self, target: &WorkflowState, nodes: &[String], limit: Limit) -> Answer {
        let workflow = self.get().await?;
        let (workflow, ending) = self.go_to(workflow, target, nodes, limit).await?;
        self.answer(&workflow, &ending).await.map(Response::new)
    }

    /// Advances the job's Workflow to the end of DataIn, and requests PreRun. Does not wait until PreRun is ready: the
    /// job's nodes themselves wait for their mounts.
    async fn advance_to_mount(&self, limit: Limit) -> Answer {
        let workflow = self.get().await?;
        let (mut workflow, mut ending) =
            self.go_to(workflow, &WorkflowState::DataIn, &[], limit).await?;
        if matches!(ending, Ending::Done) {
            let no_wait = Limit { waits: false, ..limit };
            (workflow, ending) = self.go_to(workflow, &WorkflowState::PreRun, &[], no_wait).await?;
            if matches!(ending, Ending::Requested) {
                ending = Ending::Done;
            }
        }
        self.answer(&workflow, &ending).await.map(Response::new)
    }

    /// Checks that `state` was requested. If it was not, the error names `call`, the call that requests it.
    async fn check_after(&self, state: &WorkflowState, call: &str) -> Result<(), Status> {
        let workflow = self.get().await?;
        if was_requested(&workflow, state) {
            return Ok(());
        }
        Err(Status::failed_precondition(format!(
            "argument job: job {} is in {}: call {call} first, or Teardown to end it",
            self.id.job, workflow.spec.desired_state
        )))
    }

    /// Fails if the job still waits for PreRun. A Workflow leaves PreRun only after all computes have mounted, which
    /// may never happen, so a call of PostRun would wait in vain.
    async fn check_mounted(&self) -> Result<(), Status> {
        let workflow = self.get().await?;
        match step(&workflow, &WorkflowState::PreRun) {
            Step::Wait(state) => Err(Status::failed_precondition(format!(
                "argument job: job {} waits for {state} and did not start: call Start, which waits too, or Teardown to end it",
                self.id.job
            ))),
            _ => Ok(()),
        }
    }

    async fn tear_down(&self, hurry: bool, limit: Limit) -> Answer {
        let Some(mut workflow) = self.find().await? else {
            return Ok(Response::new(answer::unknown(&self.id)));
        };
        if hurry {
            workflow = self.hurry(workflow).await?;
        }
        let (workflow, mut ending) =
            self.go_to(workflow, &WorkflowState::Teardown, &[], limit).await?;
        let workflow = match ending {
            Ending::Done => {
                let removed = self.remove(workflow, limit).await?;
                ending = removed.1;
                removed.0
            }
            // Another client deleted the Workflow.
            Ending::TearingDown => return Ok(Response::new(answer::unknown(&self.id))),
            _ => workflow,
        };
        if matches!(ending, Ending::Done) {
            return Ok(Response::new(answer::unknown(&self.id)));
        }
        self.answer(&workflow, &ending).await.map(Response::new)
    }
}

#[tonic::async_trait]
impl Workloads for WorkloadsService {
    type WatchStream = Watching;
    type ObjectsStream = Listing;

    async fn check(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<CheckResponse>, Status> {
        Caller::identify(&Peer::identify(&request)?, &self.managers)?;
        let directives = request::directives(&request.into_inner().directives)?;
        // Until the engine has read the site's rules, `Check` tests only the syntax; `Create` checks again.
        if let Some(rules) = self.rules.get() {
            let checked = directive::check::submitted(&directives, &rules);
            checked.map_err(|problems| Status::invalid_argument(problems.to_string()))?;
        }
        Ok(Response::new(CheckResponse {}))
    }

    async fn capacity(
        &self,
        request: Request<CapacityRequest>,
    ) -> Result<Response<CapacityResponse>, Status> {
        Caller::identify(&Peer::identify(&request)?, &self.managers)?;
        capacity::read(&self.client).await.map(Response::new)
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let caller = Caller::identify(&Peer::identify(&request)?, &self.managers)?;
        let manager = request.into_inner().manager;
        caller.check_manager(&manager)?;
        list::read(&self.client, &caller, &manager).await.map(Response::new)
    }

    async fn objects(
        &self,
        request: Request<ObjectsRequest>,
    ) -> Result<Response<Self::ObjectsStream>, Status> {
        let caller = Caller::identify(&Peer::identify(&request)?, &self.managers)?;
        let request = request.into_inner();
        let sight = caller.sight(request.user_id)?;
        let found = objects::read(&self.client, &sight, &request).await?;
        let found: Vec<_> = found.into_iter().map(Ok).collect();
        Ok(Response::new(stream::iter(found)))
    }

    async fn create(&self, request: Request<CreateRequest>) -> Answer {
        let (job, request) = self.authorized_job(request, |request| request.job.take())?;
        job.caller.check_new(&job.id.manager)?;
        let owner = job.caller.owner(request.user_id, request.group_id)?;
        let directives = request::directives(&request.directives)?;
        let directives = self.without_presets(directives)?;
        let limit = request::limit(request.patience)?;
        request::tolerance(request.tolerance, &directives)?;
        let manager_and_job = (job.id.manager.as_str(), job.id.job.as_str());
        let workflow =
            workload::job(NAMESPACE, job.flow.name(), manager_and_job, owner, directives);
        let workflow = job.create(workflow, request.tolerance, limit).await?;
        let (workflow, ending) = job.go_to(workflow, &WorkflowState::Proposal, &[], limit).await?;
        job.answer(&workflow, &ending).await.map(Response::new)
    }

    async fn setup(&self, request: Request<SetupRequest>) -> Answer {
        let (job, request) = self.authorized_job(request, |request| request.job.take())?;
        let nodes = request::nodes(request.nodes)?;
        let limit = request::limit(request.patience)?;
        job.check_nodes(&job.get().await?, &nodes).await?;
        job.advance_to(&WorkflowState::Setup, &nodes, limit).await
    }

    async fn start(&self, request: Request<StartRequest>) -> Answer {
        let (job, request) = self.authorized_job(request, |request| request.job.take())?;
        let limit = request::limit(request.patience)?;
        job.check_after(&WorkflowState::Setup, "Setup").await?;
        if request.only_asked {
            return job.advance_to_mount(limit).await;
        }
        let target = if request.only_data { WorkflowState::DataIn } else { WorkflowState::PreRun };
        job.advance_to(&target, &[], limit).await
    }

    async fn post_run(&self, request: Request<PostRunRequest>) -> Answer {
        let (job, request) = self.authorized_job(request, |request| request.job.take())?;
        let limit = request::limit(request.patience)?;
        job.check_after(&WorkflowState::PreRun, "Start").await?;
        job.check_mounted().await?;
        let target =
            if request.only_nodes { WorkflowState::PostRun } else { WorkflowState::DataOut };
        job.advance_to(&target, &[], limit).await
    }

    async fn teardown(&self, request: Request<TeardownRequest>) -> Answer {
        let (job, request) = self.authorized_job(request, |request| request.job.take())?;
        job.tear_down(request.hurry, request::limit(request.patience)?).await
    }

    async fn abort(&self, request: Request<AbortRequest>) -> Answer {
        let (job, request) = self.authorized_job(request, |request| request.job.take())?;
        let reason = request::reason(&request.reason);
        let Some(workflow) = job.find().await? else {
            return Ok(Response::new(answer::unknown(&job.id)));
        };
        let workflow = job.abort(workflow, &reason).await?;
        job.answer(&workflow, &Ending::Done).await.map(Response::new)
    }

    async fn status(&self, request: Request<WorkloadRequest>) -> Answer {
        let (job, _) = self.authorized_job(request, |request| request.job.take())?;
        let workflow = job.get().await?;
        let ending = answer::current_ending(&workflow, Timestamp::now());
        job.answer(&workflow, &ending).await.map(Response::new)
    }

    async fn watch(
        &self,
        request: Request<WorkloadRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (job, _) = self.authorized_job(request, |request| request.job.take())?;
        job.get().await?;
        Ok(Response::new(watch::watch_job(job)))
    }
}
