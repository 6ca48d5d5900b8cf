use std::path::PathBuf;

use proto::v1::node_server::{Node, NodeServer};
use proto::v1::{Health, HealthRequest, PlanRequest, PlanResponse, StatusRequest, StatusResponse};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

use crate::box_of_one::{BoxOfOne, mount};

/// An agent that tells which objects it was asked about.
struct Agent;

#[tonic::async_trait]
impl Node for Agent {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        Err(Status::unimplemented("not asked"))
    }

    async fn plan(&self, request: Request<PlanRequest>) -> Result<Response<PlanResponse>, Status> {
        let request = request.into_inner();
        let mount: Value = serde_json::from_slice(&request.client_mount).unwrap();
        if request.profile.is_empty() {
            let rejection = "no profile: pin one".to_owned();
            return Ok(Response::new(PlanResponse { steps: Vec::new(), rejection }));
        }
        let profile: Value = serde_json::from_slice(&request.profile).unwrap();
        let step =
            format!("mount {} by {}", mount["metadata"]["name"], profile["metadata"]["name"]);
        Ok(Response::new(PlanResponse { steps: vec![step], rejection: String::new() }))
    }

    async fn get_health(&self, _: Request<HealthRequest>) -> Result<Response<Health>, Status> {
        Err(Status::unimplemented("not asked"))
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

#[test]
fn the_agent_plans_with_the_profile_of_the_files_or_of_the_api() {
    let here = BoxOfOne::start();
    let alone = here.file("alone.yaml", &[pinned_mount()]);
    let both = here.file("both.yaml", &[profile(), pinned_mount()]);
    let profile = here.file("profile.yaml", &[profile()]);
    let socket = here.path("agent.sock");
    with_agent(socket.clone(), || {
        let agent = socket.display().to_string();
        let plan = |file: &str| here.warren(&["plan", "-f", file, "--agent", &agent]);
        let refused = plan(&alone).assert().code(2);
        let text = String::from_utf8(refused.get_output().stdout.clone()).unwrap();
        assert_eq!(text, "clientmount/job: refused: no profile: pin one\n");
        let steps = "clientmount/job:\n  1. mount \"job\" by \"pinned\"\n";
        plan(&both).assert().success().stdout(steps);
        here.warren(&["apply", "-f", &profile]).assert().success();
        plan(&alone).assert().success().stdout(steps);
    });
}

#[test]
fn without_an_agent_or_a_mount_there_is_no_plan() {
    let here = BoxOfOne::start();
    let file = here.file("alone.yaml", &[pinned_mount()]);
    let agent = here.path("agent.sock").display().to_string();
    let assert = here.warren(&["plan", "-f", &file, "--agent", &agent]).assert().code(7);
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(text.contains("agent.sock") && text.contains("--agent"), "{text}");
    let file = here.file("profile.yaml", &[profile()]);
    here.warren(&["plan", "-f", &file, "--agent", &agent]).assert().code(2);
}
