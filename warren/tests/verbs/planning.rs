use std::path::PathBuf;

use proto::v1::node_server::{Node, NodeServer};
use proto::v1::{
    Health, HealthRequest, JobNews, MountRequest, ObjectName, ObjectPlan, PlanRequest,
    PlanResponse, StatusRequest, StatusResponse, UnmountRequest, WaitRequest,
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
        let objects = request.objects.iter().map(|json| serde_json::from_slice(json).unwrap());
        let objects: Vec<Value> = objects.collect();
        let profile = objects.iter().find(|object| object["kind"] == "NnfStorageProfile");
        let given = objects.iter().filter(|object| object["kind"] != "NnfStorageProfile");
        let mut plans: Vec<_> = given.map(|object| plan(object, profile)).collect();
        for ObjectName { kind, name } in request.names {
            let steps = vec![format!("unmount {name}, delete {}", request.delete)];
            plans.push(ObjectPlan { kind, name, steps, ..ObjectPlan::default() });
        }
        if plans.is_empty() {
            plans = all_plans();
        }
        Ok(Response::new(PlanResponse { plans, reached: None }))
    }

    async fn get_health(&self, _: Request<HealthRequest>) -> Result<Response<Health>, Status> {
        Err(Status::unimplemented("this test does not call this method"))
    }
}

/// Returns a plan that names the object and its profile.
fn plan(object: &Value, profile: Option<&Value>) -> ObjectPlan {
    let (name, uid) = (&object["metadata"]["name"], &object["metadata"]["uid"]);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let plan = ObjectPlan {
        kind: text(&object["kind"]),
        name: text(name),
        namespace: object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
        ..ObjectPlan::default()
    };
    match profile {
        _ if plan.kind != "ClientMount" => {
            ObjectPlan { waiting: "waits for devices".to_owned(), ..plan }
        }
        None => ObjectPlan { rejection: "no profile: pin one".to_owned(), ..plan },
        Some(profile) => {
            let step = format!("mount {name} {uid} by {}", profile["metadata"]["name"]);
            ObjectPlan { steps: vec![step], ..plan }
        }
    }
}

/// Returns the plans for all objects of the agent: one with a step that waits, and two at rest.
fn all_plans() -> Vec<ObjectPlan> {
    let at_rest = |kind: &str| ObjectPlan { kind: kind.into(), ..ObjectPlan::default() };
    let waiting = ObjectPlan {
        name: "job".into(),
        steps: vec!["delete namespace 1 (erases 1 GiB of user 1050)".into()],
        waiting: "waits until NnfNodeStorage job is gone".into(),
        ..at_rest("NnfNodeBlockStorage")
    };
    vec![waiting, at_rest("NnfNodeStorage"), at_rest("ClientMount")]
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
fn storage_is_planned_without_the_api_and_named_objects_without_files() {
    let here = StandaloneCoordinator::start();
    let storage = json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfNodeStorage",
        "metadata": {"name": "job", "namespace": "rabbit-1"}, "spec": {}
    });
    let file = here.file("storage.yaml", &[storage]);
    let socket = here.path("agent.sock");
    with_agent(socket.clone(), || {
        let agent = socket.display().to_string();
        let plan = |words: &[&str]| {
            let mut command = here.warren(&[&["plan", "--agent", &agent], words].concat());
            command.env("WARREN_API", "unix:///nowhere");
            command
        };
        let waits = "nnfnodestorage/job: waits for devices\n";
        plan(&["-f", &file]).assert().success().stdout(waits).stderr("");
        let named = "clientmount/job:\n  1. unmount job, delete true\n";
        plan(&["--delete", "clientmount/job"]).assert().success().stdout(named);
        let all = "nnfnodeblockstorage/job: waits until NnfNodeStorage job is gone; then:\n  \
                   1. delete namespace 1 (erases 1 GiB of user 1050)\n2 objects: nothing to do\n";
        plan(&[]).assert().success().stdout(all);
        let json = plan(&["--json", "clientmount/job"]).assert().success();
        let plans: Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
        assert_eq!(
            (&plans[0]["kind"], &plans[0]["object"]),
            (&json!("clientmount"), &json!("job"))
        );
        plan(&["job"]).assert().code(2);
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
