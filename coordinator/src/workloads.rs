//! The gRPC service `Workloads`: the storage of jobs, for workload managers.
//!
//! The service holds no state. A call reads the job's Workflow, asks for states one by one, and waits by watching. What must outlive it
//! is in the Workflow: the state that is asked for, the deadlines, who aborted it. Beside the Workflow it writes the job's
//! Computes; the engine does the rest.

mod answer;
mod caller;
mod capacity;
mod conditions;
mod deadlines;
mod job;
mod list;
mod lose;
mod request;
mod step;
mod tolerance;
mod watch;

use std::sync::Arc;

use api::WorkflowState;
use jiff::Timestamp;
use kube::Client;
use proto::v1::workloads_server::Workloads;
use proto::v1::{
    AbortRequest, CapacityRequest, CapacityResponse, CheckRequest, CheckResponse, CreateRequest,
    JobId, ListRequest, ListResponse, PostRunRequest, SetupRequest, StartRequest, TeardownRequest,
    Workload, WorkloadRequest,
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
use step::{Step, step, was_asked_for};
use watch::Watching;

type Answer = Result<Response<Workload>, Status>;

/// Implements `Workloads`.
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

    /// The job that a request is about, if its caller may speak for it, and the rest of the request.
    fn called<T>(
        &self,
        request: Request<T>,
        id: impl FnOnce(&mut T) -> Option<JobId>,
    ) -> Result<(Job, T), Status> {
        let caller = Caller::of(&Peer::of(&request)?, &self.managers)?;
        let mut request = request.into_inner();
        let (id, name) = request::job(id(&mut request))?;
        caller.check_manager(&id.manager)?;
        let flow = Flow::new(self.client.clone(), NAMESPACE, &name);
        let (client, hub, stop) = (self.client.clone(), self.hub.clone(), self.stop.clone());
        Ok((Job { client, hub, stop, flow, id, caller }, request))
    }
}

impl Job {
    /// Brings the job's Workflow to a state, and answers with what the Workflow says then.
    async fn advance_to(&self, target: &WorkflowState, nodes: &[String], limit: Limit) -> Answer {
        let workflow = self.get().await?;
        let (workflow, ending) = self.go_to(workflow, target, nodes, limit).await?;
        self.answer(&workflow, &ending).await.map(Response::new)
    }

    /// Brings it to the end of DataIn and asks for PreRun, for which its nodes wait.
    async fn advance_to_mount(&self, limit: Limit) -> Answer {
        let workflow = self.get().await?;
        let (mut workflow, mut ending) =
            self.go_to(workflow, &WorkflowState::DataIn, &[], limit).await?;
        if matches!(ending, Ending::Done) {
            let asking = Limit { waits: false, ..limit };
            (workflow, ending) = self.go_to(workflow, &WorkflowState::PreRun, &[], asking).await?;
            if matches!(ending, Ending::Requested) {
                ending = Ending::Done;
            }
        }
        self.answer(&workflow, &ending).await.map(Response::new)
    }

    /// Checks that the call that comes before this one was made.
    async fn check_after(&self, state: &WorkflowState, call: &str) -> Result<(), Status> {
        let workflow = self.get().await?;
        if was_asked_for(&workflow, state) {
            return Ok(());
        }
        Err(Status::failed_precondition(format!(
            "argument job: job {} is in {}: call {call} first, or Teardown to end it",
            self.id.job, workflow.spec.desired_state
        )))
    }

    /// Checks that a job may go to PostRun: a Workflow leaves PreRun only after all computes have mounted, which may never happen.
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
            // Somebody else deleted it.
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

    async fn check(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<CheckResponse>, Status> {
        Caller::of(&Peer::of(&request)?, &self.managers)?;
        let directives = request::directives(&request.into_inner().directives)?;
        // Before the engine has read the site's rules nobody is refused by them; Create judges again.
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
        Caller::of(&Peer::of(&request)?, &self.managers)?;
        capacity::read(&self.client).await.map(Response::new)
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let caller = Caller::of(&Peer::of(&request)?, &self.managers)?;
        let manager = request.into_inner().manager;
        caller.check_manager(&manager)?;
        list::read(&self.client, &caller, &manager).await.map(Response::new)
    }

    async fn create(&self, request: Request<CreateRequest>) -> Answer {
        let (job, request) = self.called(request, |request| request.job.take())?;
        job.caller.check_new(&job.id.manager)?;
        let owner = job.caller.owner(request.user_id, request.group_id)?;
        let directives = request::directives(&request.directives)?;
        let limit = request::limit(request.patience)?;
        request::tolerance(request.tolerance, &directives)?;
        let called = (job.id.manager.as_str(), job.id.job.as_str());
        let wanted = workload::job(NAMESPACE, job.flow.name(), called, owner, directives);
        let workflow = job.create(wanted, request.tolerance, limit).await?;
        let (workflow, ending) = job.go_to(workflow, &WorkflowState::Proposal, &[], limit).await?;
        job.answer(&workflow, &ending).await.map(Response::new)
    }

    async fn setup(&self, request: Request<SetupRequest>) -> Answer {
        let (job, request) = self.called(request, |request| request.job.take())?;
        let nodes = request::nodes(request.nodes)?;
        let limit = request::limit(request.patience)?;
        job.check_nodes(&job.get().await?, &nodes).await?;
        job.advance_to(&WorkflowState::Setup, &nodes, limit).await
    }

    async fn start(&self, request: Request<StartRequest>) -> Answer {
        let (job, request) = self.called(request, |request| request.job.take())?;
        let limit = request::limit(request.patience)?;
        job.check_after(&WorkflowState::Setup, "Setup").await?;
        if request.only_asked {
            return job.advance_to_mount(limit).await;
        }
        let target = if request.only_data { WorkflowState::DataIn } else { WorkflowState::PreRun };
        job.advance_to(&target, &[], limit).await
    }

    async fn post_run(&self, request: Request<PostRunRequest>) -> Answer {
        let (job, request) = self.called(request, |request| request.job.take())?;
        let limit = request::limit(request.patience)?;
        job.check_after(&WorkflowState::PreRun, "Start").await?;
        job.check_mounted().await?;
        let target =
            if request.only_nodes { WorkflowState::PostRun } else { WorkflowState::DataOut };
        job.advance_to(&target, &[], limit).await
    }

    async fn teardown(&self, request: Request<TeardownRequest>) -> Answer {
        let (job, request) = self.called(request, |request| request.job.take())?;
        job.tear_down(request.hurry, request::limit(request.patience)?).await
    }

    async fn abort(&self, request: Request<AbortRequest>) -> Answer {
        let (job, request) = self.called(request, |request| request.job.take())?;
        let reason = request::reason(&request.reason);
        let Some(workflow) = job.find().await? else {
            return Ok(Response::new(answer::unknown(&job.id)));
        };
        let workflow = job.abort(workflow, &reason).await?;
        job.answer(&workflow, &Ending::Done).await.map(Response::new)
    }

    async fn status(&self, request: Request<WorkloadRequest>) -> Answer {
        let (job, _) = self.called(request, |request| request.job.take())?;
        let workflow = job.get().await?;
        let ending = answer::at_rest(&workflow, Timestamp::now());
        job.answer(&workflow, &ending).await.map(Response::new)
    }

    async fn watch(
        &self,
        request: Request<WorkloadRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (job, _) = self.called(request, |request| request.job.take())?;
        job.get().await?;
        Ok(Response::new(watch::watching(job)))
    }
}
