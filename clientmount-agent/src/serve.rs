//! Serves the node's own socket: scripts wait for a job's mounts; operators of this node list its mounts
//! and the agent's plans.

mod preview;

use std::{sync::Arc, time::Duration};

use proto::{
    limits::NAME,
    v1::{
        self, Health, HealthRequest, JobName, JobNews, MountRequest, Namespace, ObjectPlan,
        OnTimeout, PlanRequest, PlanResponse, ReachedNamespaces, StatusRequest, StatusResponse,
        UnmountRequest, WaitRequest,
        job_name::Name,
        node_server::{Node, NodeServer},
    },
};
use storage::Converger;
use tokio::{net::UnixListener, sync::mpsc, task, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, transport::Server};

use crate::{
    clients::Clients,
    job::{Call, Goal, Shared, lines, wait},
};
use agent::{link::LARGEST_MESSAGE, questions::Question};
use preview::Given;

/// How long a status request waits for the coordinator's answer about a job.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of messages that may wait for a script to read them. A script that reads no messages delays
/// only its own call.
const IN_FLIGHT: usize = 8;

/// Serves the node's socket until it fails.
pub async fn serve(listener: UnixListener, clients: Clients, service: NodeService) {
    let served = Server::builder()
        .add_service(NodeServer::new(service).max_decoding_message_size(LARGEST_MESSAGE))
        .serve_with_incoming(clients.accept(listener));
    if let Err(error) = served.await {
        log::error!("the agent cannot serve the node's socket any more: {}", daemon::chain(&error));
    }
}

/// The gRPC service `Node`.
#[derive(Debug, Clone)]
pub struct NodeService {
    pub shared: Shared,
    pub converger: Arc<Converger>,
}

impl NodeService {
    /// Begins a call that waits for a job's mounts.
    fn begin(
        &self,
        job: Option<JobName>,
        goal: Goal,
        deadline_ms: u64,
        on_timeout: OnTimeout,
    ) -> Result<Response<ReceiverStream<Result<JobNews, Status>>>, Status> {
        let job = check_job(job)?;
        let deadline = Duration::from_millis(deadline_ms);
        let (stream, messages) = mpsc::channel(IN_FLIGHT);
        let call = Call { job, goal, deadline, on_timeout };
        tokio::spawn(wait(call, self.shared.clone(), stream));
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    /// Plans as a request asks.
    pub(crate) async fn plan_request(&self, request: &PlanRequest) -> Result<PlanResponse, Status> {
        if request.reached {
            return self.list_namespaces().await;
        }
        if request.objects.is_empty() {
            self.known_plans(request).await
        } else {
            self.given_plans(request).await
        }
    }

    /// Plans for the objects that the agent knows: those that the request names, those of its job, or all.
    async fn known_plans(&self, request: &PlanRequest) -> Result<PlanResponse, Status> {
        let view = &self.shared.view;
        let job = request.job.as_ref().filter(|job| !is_empty(job));
        let mut objects = job.map_or_else(|| view.all(), |job| view.objects_of_job(job, None));
        preview::retain_named(&mut objects, &request.names)?;
        let (site, deletes) = (self.shared.site.clone(), request.delete);
        self.plan_in_background(move |converger| {
            let plan_one = |(_, viewed): (String, crate::view::Viewed)| {
                let received = &viewed.received;
                let units = received.units(viewed.gone || deletes, &site);
                preview::plan(converger, (&received.namespace, &received.name), units)
            };
            objects.into_iter().map(plan_one).collect()
        })
        .await
    }

    /// Plans for the objects in the request.
    async fn given_plans(&self, request: &PlanRequest) -> Result<PlanResponse, Status> {
        let given = Given::decode(&request.objects, request.delete)?;
        let site = self.shared.site.clone();
        self.plan_in_background(move |converger| given.plans(converger, &site)).await
    }

    /// Lists the namespaces that the node reaches.
    async fn list_namespaces(&self) -> Result<PlanResponse, Status> {
        let converger = Arc::clone(&self.converger);
        let found = task::spawn_blocking(move || converger.reached_namespaces()).await;
        let found = found.map_err(|error| Status::internal(error.to_string()))?;
        let found = found.map_err(|error| Status::unavailable(daemon::chain(&error)))?;
        let namespaces =
            found.into_iter().map(|id| Namespace { nqn: id.subsystem.to_string(), id: id.nsid });
        let reached = ReachedNamespaces { namespaces: namespaces.collect() };
        Ok(PlanResponse { plans: Vec::new(), reached: Some(reached) })
    }

    async fn plan_in_background(
        &self,
        work: impl FnOnce(&Converger) -> Vec<ObjectPlan> + Send + 'static,
    ) -> Result<PlanResponse, Status> {
        let converger = Arc::clone(&self.converger);
        let planned = task::spawn_blocking(move || work(&converger)).await;
        let plans = planned.map_err(|error| Status::internal(error.to_string()))?;
        Ok(PlanResponse { plans, reached: None })
    }
}

fn is_empty(job: &JobName) -> bool {
    job.name.as_ref().is_none_or(|name| {
        let (Name::Job(name) | Name::Workflow(name)) = name;
        name.is_empty()
    })
}

/// Checks the job that a request names.
fn check_job(job: Option<JobName>) -> Result<JobName, Status> {
    let invalid = |why: &str| Err(Status::invalid_argument(why));
    match job.filter(|job| !is_empty(job)) {
        Some(JobName { name: Some(Name::Job(name) | Name::Workflow(name)) })
            if name.len() > NAME || name.contains(char::is_control) =>
        {
            invalid(
                "--job, --workflow: the name is longer than any job's name, or has control characters: correct it",
            )
        }
        Some(job) => Ok(job),
        None => invalid("no job is named: give --job ID or --workflow NAME"),
    }
}

#[tonic::async_trait]
impl Node for NodeService {
    type MountStream = ReceiverStream<Result<JobNews, Status>>;
    type UnmountStream = ReceiverStream<Result<JobNews, Status>>;
    type WaitStream = ReceiverStream<Result<JobNews, Status>>;

    async fn mount(
        &self,
        request: Request<MountRequest>,
    ) -> Result<Response<Self::MountStream>, Status> {
        let MountRequest { job, deadline_ms, with_env, all_nodes } = request.into_inner();
        self.begin(job, Goal::Mounted { with_env, all_nodes }, deadline_ms, OnTimeout::Report)
    }

    async fn unmount(
        &self,
        request: Request<UnmountRequest>,
    ) -> Result<Response<Self::UnmountStream>, Status> {
        let request = request.into_inner();
        let on_timeout = request.on_timeout();
        self.begin(request.job, Goal::Unmounted, request.deadline_ms, on_timeout)
    }

    async fn wait(
        &self,
        request: Request<WaitRequest>,
    ) -> Result<Response<Self::WaitStream>, Status> {
        let request = request.into_inner();
        let goal = match request.goal() {
            v1::Goal::Mounted => Goal::Mounted { with_env: false, all_nodes: false },
            v1::Goal::Unmounted => Goal::Unmounted,
            v1::Goal::Unspecified => {
                return Err(Status::invalid_argument("goal: set GOAL_MOUNTED or GOAL_UNMOUNTED"));
            }
        };
        self.begin(request.job, goal, request.deadline_ms, OnTimeout::Report)
    }

    async fn status(
        &self,
        request: Request<StatusRequest>,
    ) -> Result<Response<StatusResponse>, Status> {
        let Shared { site, view, outbox, .. } = &self.shared;
        let (viewed, job) = match request.into_inner().job {
            None => (view.all(), None),
            Some(job) => {
                let job = check_job(Some(job))?;
                let mut question = Question::ask(outbox, Some(job.clone()));
                let is_certain = |answer: &Option<v1::JobState>| {
                    let uncertain = v1::job_state::Knowledge::Uncertain;
                    answer.as_ref().is_some_and(|state| state.knowledge() != uncertain)
                };
                // Without an answer in time the status shows the node's own view.
                let _ = timeout(ANSWER_TIMEOUT, question.answer.wait_for(is_certain)).await;
                let state = question.answer.borrow().clone();
                (view.objects_of_job(&job, state.as_ref()), state)
            }
        };
        Ok(Response::new(StatusResponse {
            node: site.node.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            connected: outbox.is_connected(),
            mounts: outbox.reports().iter().map(Into::into).collect(),
            lines: lines(&viewed, job.as_ref(), site),
            job,
        }))
    }

    async fn plan(&self, request: Request<PlanRequest>) -> Result<Response<PlanResponse>, Status> {
        self.plan_request(&request.into_inner()).await.map(Response::new)
    }

    async fn get_health(&self, _: Request<HealthRequest>) -> Result<Response<Health>, Status> {
        Ok(Response::new(self.shared.outbox.health()))
    }
}

#[cfg(test)]
mod tests;
