use std::path::PathBuf;

use proto::v1::node_server::{Node, NodeServer};
use proto::v1::{
    Health, HealthRequest, JobNews, MountRequest, PlanRequest, PlanResponse, StatusRequest,
    StatusResponse, UnmountRequest, WaitRequest,
};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Request, Response, Status};

use crate::standalone_coordinator::{StandaloneCoordinator, configuration, mount};

/// An agent whose plan names the objects of the request.
struct Agent;

#[tonic::async_trait]
impl Node for Agent {
    type MountStream = ReceiverStream<Result<JobNews, Status>>;
    type UnmountStream = ReceiverStream<Result<JobNews, Status>>;
    type WaitStream = ReceiverStream<Result<JobNews, Status>>;

    async fn mount(&self, _: Request<MountRequest>) -> Result<Response<Self::MountStream>, Status> {
        Err(Status::unimplemented("this test does not wait"))
    }

    async fn unmount(
        &self,
        _: Request<UnmountRequest>,
    ) -> Result<Response<Self::UnmountStream>, Status> {
        Err(Status::unimplemented("this test does not wait"))
    }

    async fn wait(&self, _: Request<WaitRequest>) -> Result<Response<Self::WaitStream>, Status> {
        Err(Status::unimplemented("this test does not wait"))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        Err(Status::unimplemented("this test does not call this method"))
    }

    async fn plan(&self, request: Request<PlanRequest>) -> Result<Response<PlanResponse>, Status> {
        let request = request.into_inner();
        let mount: Value = serde_json::from_slice(&request.client_mount).unwrap();
        if request.profile.is_empty() {
            let rejection = "no profile: pin one".to_owned();
            return Ok(Response::new(PlanResponse { rejection, ..PlanResponse::default() }));
        }
        let profile: Value = serde_json::from_slice(&request.profile).unwrap();
        let (name, uid) = (&mount["metadata"]["name"], &mount["metadata"]["uid"]);
        let step = format!("mount {name} {uid} by {}", profile["metadata"]["name"]);
        Ok(Response::new(PlanResponse { steps: vec![step], ..PlanResponse::default() }))
    }

    async fn get_health(&self, _: Request<HealthRequest>) -> Result<Response<Health>, Status> {
        Err(Status::unimplemented("this test does not call this method"))
    }
}

fn with_agent(socket: PathBuf, test: impl FnOnce()) {
    let (stop, stopped) = oneshot::channel::<()>();
    let (started, ready) = std::sync::mpsc::channel();
    let serving = std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(
            async {
                let incoming = UnixListenerStream::new(UnixListener::bind(socket).unwrap());
                started.send(()).unwrap();
                let server =
                    tonic::transport::Server::builder().add_service(NodeServer::new(Agent));
                server
                    .serve_with_incoming_shutdown(incoming, async { drop(stopped.await) })
                    .await
                    .unwrap();
            },
        );
    });
    ready.recv().unwrap();
    test();
    drop(stop);
    serving.join().unwrap();
}

fn pinned_mount() -> Value {
    let mut object = mount("job", "mounted");
    object["metadata"]["labels"]["nnf.cray.hpe.com/pinned_storage_profile_name"] = "pinned".into();
    object["metadata"]["labels"]["nnf.cray.hpe.com/pinned_storage_profile_namespace"] =
        "default".into();
    object
}

fn profile() -> Value {
    json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfStorageProfile",
        "metadata": {"name": "pinned", "namespace": "default"},
        "data": {"pinned": true, "gfs2Storage": {}, "lustreStorage": {}, "rawStorage": {}, "xfsStorage": {}}
    })
}

/// Uid that the agent receives for an object that is not in the API.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

fn steps(uid: &str) -> String {
    format!("clientmount/job:\n  1. mount \"job\" \"{uid}\" by \"pinned\"\n")
}

#[test]
fn an_object_without_a_uid_gets_the_uid_of_the_stored_object() {
    let here = StandaloneCoordinator::start();
    let file = here.file("both.yaml", &[profile(), pinned_mount()]);
    let node = here.file("node.yaml", &[configuration()]);
    let mut other = pinned_mount();
    other["metadata"]["uid"] = "0fabbc24-a452-45f6-9e12-033275fc6fa5".into();
    let with_uid = here.file("uid.yaml", &[profile(), other]);
    let socket = here.path("agent.sock");
    with_agent(socket.clone(), || {
        let agent = socket.display().to_string();
        let plan = |file: &str| here.warren(&["plan", "-f", file, "--agent", &agent]);
        plan(&file).assert().success().stdout(steps(NO_UID)).stderr("");
        here.warren(&["apply", "-f", &node, "-f", &file]).assert().success();
        let live = here.json(&["get", "clientmount", "job", "-n", "compute-1", "--json"]);
        let uid = live["metadata"]["uid"].as_str().unwrap();
        assert_ne!(uid, NO_UID);
        plan(&file).assert().success().stdout(steps(uid));
        plan(&with_uid).assert().success().stdout(steps("0fabbc24-a452-45f6-9e12-033275fc6fa5"));
    });
}

#[test]
fn a_plan_whose_files_hold_the_profile_needs_no_api() {
    let here = StandaloneCoordinator::start();
    let file = here.file("both.yaml", &[profile(), pinned_mount(), pinned_mount()]);
    let socket = here.path("agent.sock");
    with_agent(socket.clone(), || {
        let agent = socket.display().to_string();
        let mut plan = here.warren(&["plan", "-f", &file, "--agent", &agent]);
        plan.env("WARREN_API", format!("unix://{}", here.path("nobody.sock").display()));
        let assert = plan.assert().success().stdout(steps(NO_UID).repeat(2));
        let stderr = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
        assert_eq!(stderr.matches("nobody.sock").count(), 1, "{stderr}");
    });
}

#[test]
fn the_agent_plans_with_the_profile_of_the_files_or_of_the_api() {
    let here = StandaloneCoordinator::start();
    let alone = here.file("alone.yaml", &[pinned_mount()]);
    let both = here.file("both.yaml", &[profile(), pinned_mount()]);
    let profile = here.file("profile.yaml", &[profile()]);
    let socket = here.path("agent.sock");
    with_agent(socket.clone(), || {
        let agent = socket.display().to_string();
        let plan = |file: &str| here.warren(&["plan", "-f", file, "--agent", &agent]);
        let refused = plan(&alone).assert().code(5);
        let text = String::from_utf8(refused.get_output().stdout.clone()).unwrap();
        assert_eq!(text, "clientmount/job: refused: no profile: pin one\n");
        let steps = steps(NO_UID);
        plan(&both).assert().success().stdout(steps.clone());
        here.warren(&["apply", "-f", &profile]).assert().success();
        plan(&alone).assert().success().stdout(steps);
    });
}

#[test]
fn plan_fails_without_an_agent_and_without_a_client_mount_in_the_files() {
    let here = StandaloneCoordinator::start();
    let file = here.file("alone.yaml", &[pinned_mount()]);
    let agent = here.path("agent.sock").display().to_string();
    let assert = here.warren(&["plan", "-f", &file, "--agent", &agent]).assert().code(8);
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(text.contains("agent.sock") && text.contains("--agent"), "{text}");
    let file = here.file("profile.yaml", &[profile()]);
    here.warren(&["plan", "-f", &file, "--agent", &agent]).assert().code(2);
}
