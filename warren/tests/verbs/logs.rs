//! `warren logs` for containers that the rabbits' agents run. The test plays the agents.

use api::{NodeContainers, names::annotation};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};

use crate::standalone_coordinator::StandaloneCoordinator;

const NAME: &str = "default-w-1";

fn containers(rabbit: &str) -> Value {
    json!({
        "apiVersion": "warren.nnf.cray.hpe.com/v1alpha1", "kind": "NodeContainers",
        "metadata": {"name": NAME, "namespace": rabbit, "labels": {
            "nnf.cray.hpe.com/container": "w",
            "dataworkflowservices.github.io/workflow.namespace": "default"}},
        "spec": {"userID": 1050, "groupID": 1051, "hostname": rabbit, "containers": [
            {"name": "app", "image": "app:1", "imagePullPolicy": "Never"}]},
    })
}

/// Starts a coordinator with two rabbits that have containers of the workflow `w`.
fn here() -> StandaloneCoordinator {
    let here = StandaloneCoordinator::start();
    let namespace =
        |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let all = ["rabbit-1", "rabbit-2"].map(|name| [namespace(name), containers(name)]);
    let file = here.file("containers.yaml", &all.concat());
    here.warren(&["apply", "-f", &file]).assert().success();
    for rabbit in ["rabbit-1", "rabbit-2"] {
        act(&here, async |client| {
            write_status(&client, rabbit, json!({"state": "Ready", "attempt": 1})).await;
        });
    }
    here
}

/// Runs `work` with a client of the API.
fn act<T>(here: &StandaloneCoordinator, work: impl AsyncFnOnce(Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let kubeconfig = Kubeconfig::read_from(here.path("kubeconfig")).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        work(Client::try_from(config).unwrap()).await
    })
}

/// Writes a status as the agent of a rabbit does.
async fn write_status(client: &Client, rabbit: &str, status: Value) {
    let api: Api<NodeContainers> = Api::namespaced(client.clone(), rabbit);
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(NAME, &PatchParams::default(), &patch).await.unwrap();
}

/// Answers the next request for logs as the agent of a rabbit does.
async fn answer(client: &Client, rabbit: &str, text: &str) {
    let api: Api<NodeContainers> = Api::namespaced(client.clone(), rabbit);
    let has_request = |run: Option<&NodeContainers>| {
        run.is_some_and(|run| run.unanswered_log_request().is_some())
    };
    let run = await_condition(api, NAME, has_request).await.unwrap().unwrap();
    let logs = json!([{"attempt": 1, "container": "app", "text": text}]);
    let request = &run.annotations()[annotation::LOGS_ASKED];
    write_status(client, rabbit, json!({"logs": logs, "logsAnswered": request})).await;
}

#[test]
fn each_call_requests_the_logs_of_running_containers_and_shows_the_answers() {
    let here = here();
    for text in ["began\n", "began\nwent on\n"] {
        let stdout = std::thread::scope(|scope| {
            let stdout = scope.spawn(|| here.output(&["logs", "w"]));
            act(&here, async |client| {
                for rabbit in ["rabbit-1", "rabbit-2"] {
                    answer(&client, rabbit, text).await;
                }
            });
            stdout.join().unwrap()
        });
        let lines = |rabbit: &str| -> String {
            text.lines().map(|line| format!("{rabbit}/app: {line}\n")).collect()
        };
        assert_eq!(stdout, lines("rabbit-1") + &lines("rabbit-2"));
    }
}

#[test]
fn a_silent_rabbit_is_named_and_the_other_logs_are_shown() {
    let here = here();
    let logs = json!([{"attempt": 1, "container": "app", "text": "all\n"}]);
    let failed = json!({"state": "Failed", "logs": logs});
    act(&here, async |client| write_status(&client, "rabbit-2", failed).await);
    let assert = here.warren(&["logs", "w"]).assert().code(3).stdout("rabbit-2/app: all\n");
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(text.contains("rabbit-1 did not answer") && !text.contains("rabbit-2"), "{text}");
    // For containers that have ended, `warren` asks no agent.
    assert_eq!(here.output(&["logs", "w", "--rabbit", "rabbit-2"]), "rabbit-2/app: all\n");
    let found = here.json(&["get", "nodecontainers", NAME, "-n", "rabbit-2", "--json"]);
    assert_eq!(found["metadata"]["annotations"], Value::Null);
    here.warren(&["logs", "w", "--rabbit", "rabbit-3"]).assert().code(1);
}
