//! Serves the node's own socket: scripts wait for a job's mounts; operators of this node list its mounts
//! and the agent's plans.

use std::{sync::Arc, time::Duration};

use api::{ClientMount, NnfStorageProfile};
use proto::{
    limits::NAME,
    v1::{
        self, Health, HealthRequest, JobName, JobNews, MountRequest, ObjectPlan, OnTimeout,
        PlanRequest, PlanResponse, StatusRequest, StatusResponse, UnmountRequest, WaitRequest,
        job_name::Name,
        node_server::{Node, NodeServer},
    },
};
use serde::de::DeserializeOwned;
use storage::Converger;
use tokio::{net::UnixListener, sync::mpsc, task, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, transport::Server};

use crate::{
    clients::Clients,
    job::{Call, Goal, Shared, lines, wait},
};
use agent::{
    desired::{MountUnits, ObjectError, desired, no_references},
    link::LARGEST_MESSAGE,
    questions::Question,
    reconcile,
};

const NO_PROFILE: &str = "no NnfStorageProfile was given: add the profile that the ClientMount's labels name to the files, or apply it first";
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
#[derive(Debug)]
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

    /// Plans the steps for the objects of one job, or for all objects that the agent knows.
    async fn plans(&self, job: &JobName) -> Result<PlanResponse, Status> {
        let view = &self.shared.view;
        let objects = if is_empty(job) { view.all() } else { view.objects_of_job(job, None) };
        let (converger, site) = (Arc::clone(&self.converger), self.shared.site.clone());
        let planned = task::spawn_blocking(move || {
            let plan_one = |(_, viewed): (String, crate::view::Viewed)| {
                let received = &viewed.received;
                let PlanResponse { steps, rejection, .. } =
                    plan(&converger, received.units(viewed.gone, &site));
                let (namespace, name) = (received.namespace.clone(), received.name.clone());
                ObjectPlan { namespace, name, steps, rejection }
            };
            objects.into_iter().map(plan_one).collect()
        });
        let plans = planned.await.map_err(|error| Status::internal(error.to_string()))?;
        Ok(PlanResponse { plans, ..PlanResponse::default() })
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
        let request = request.into_inner();
        if let Some(job) = &request.job {
            return self.plans(job).await.map(Response::new);
        }
        let client_mount: ClientMount = decode("client_mount", &request.client_mount)?;
        let profile: Option<NnfStorageProfile> = if request.profile.is_empty() {
            None
        } else {
            Some(decode("profile", &request.profile)?)
        };
        let profile = profile.as_ref().ok_or(NO_PROFILE);
        let units = desired(&client_mount, profile, &no_references, &self.shared.site);
        let converger = Arc::clone(&self.converger);
        let planned = task::spawn_blocking(move || plan(&converger, units));
        planned.await.map(Response::new).map_err(|error| Status::internal(error.to_string()))
    }

    async fn get_health(&self, _: Request<HealthRequest>) -> Result<Response<Health>, Status> {
        Ok(Response::new(self.shared.outbox.health()))
    }
}

fn decode<T: DeserializeOwned>(field: &str, json: &[u8]) -> Result<T, Status> {
    serde_json::from_slice(json).map_err(|error| {
        Status::invalid_argument(format!("{field}: {error}: send the object as JSON"))
    })
}

fn plan(converger: &Converger, units: Result<MountUnits, ObjectError>) -> PlanResponse {
    let refused = |rejection| PlanResponse { rejection, ..PlanResponse::default() };
    let units = match units {
        Ok(units) => units,
        Err(error) => return refused(error.to_string()),
    };
    match reconcile::plan(converger, &units) {
        Ok(steps) => PlanResponse { steps, ..PlanResponse::default() },
        Err(failures) => {
            // Plans are for operators, so the answer has the text for operators.
            let texts: Vec<_> =
                failures.iter().map(|failed| failed.failure.debug.as_str()).collect();
            refused(texts.join("; "))
        }
    }
}

#[cfg(test)]
mod tests;
