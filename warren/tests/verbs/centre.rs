//! A stand-in for the workflow engine: every requested state is ready at once, with the objects that the sites'
//! controllers create, but without storage.

use std::thread::JoinHandle;

use api::{Computes, DirectiveBreakdown, Servers, Workflow, WorkflowState};
use apiclient::Address;
use futures::StreamExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::standalone_coordinator::StandaloneCoordinator;

pub(crate) struct Centre {
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
}

impl Centre {
    /// Serves the workflows of a coordinator. A workflow with profile `broken` fails in Setup; a workflow with profile
    /// `stuck` stays in Setup.
    pub(crate) fn start(here: &StandaloneCoordinator) -> Self {
        let address = Address::Unix(here.path("api.sock"));
        let (stop, stopped) = oneshot::channel::<()>();
        let running = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = apiclient::connect(&address).await.unwrap();
                tokio::select! {
                    () = serve(client) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { stop: Some(stop), running: Some(running) }
    }
}

impl Drop for Centre {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(running) = self.running.take() {
            let _ = running.join();
        }
    }
}

async fn serve(client: Client) {
    let api: Api<Workflow> = Api::all(client.clone());
    let mut events = std::pin::pin!(watch(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        if let Ok(Event::Apply(workflow) | Event::InitApply(workflow)) = event {
            reach(&client, &workflow).await;
        }
    }
}

async fn reach(client: &Client, workflow: &Workflow) {
    let status = workflow.status.clone().unwrap_or_default();
    let wanted = &workflow.spec.desired_state;
    let line = workflow.spec.directives.first().cloned().unwrap_or_default();
    let is_reached = status.state.as_ref() == Some(wanted);
    if is_reached && (status.ready || line.contains("broken") || line.contains("stuck")) {
        return;
    }
    if *wanted == WorkflowState::Proposal {
        propose(client, workflow, &line).await;
    }
    let now = api::MicroTime(jiff::Timestamp::now());
    let mut reached = json!({"state": wanted, "ready": true, "status": "Completed", "message": "", "desiredStateChange": now,
        "readyChange": now, "elapsedTimeLastState": "1ms"});
    if *wanted == WorkflowState::Setup && line.contains("broken") {
        reached = json!({"state": wanted, "ready": false, "status": "Error", "message": "DW Directive 0: no drive has room"});
    } else if *wanted == WorkflowState::Setup && line.contains("stuck") {
        reached = json!({"state": wanted, "ready": false, "status": "DriverWait", "message": "DW Directive 0: a rabbit is away"});
    } else if *wanted == WorkflowState::PreRun {
        reached["env"] = json!({"DW_JOB_foo": "/mnt/nnf/u-0"});
    } else if *wanted == WorkflowState::Proposal {
        let name = workflow.name_any();
        reached["computes"] = json!({"kind": "Computes", "name": name, "namespace": "default"});
        reached["directiveBreakdowns"] = json!([{"kind": "DirectiveBreakdown", "name": format!("{name}-0"), "namespace": "default"}]);
    }
    let api: Api<Workflow> = Api::namespaced(client.clone(), "default");
    let patch = Patch::Merge(json!({"status": reached}));
    let answer = api.patch(&workflow.name_any(), &PatchParams::default(), &patch).await;
    // Fails if the workflow was deleted in the meantime.
    assert!(matches!(&answer, Ok(_) | Err(kube::Error::Api(_))), "{answer:?}");
}

async fn propose(client: &Client, workflow: &Workflow, line: &str) {
    let name = workflow.name_any();
    let directive = format!("{name}-0");
    let owner = json!([{"apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Workflow", "name": name,
        "uid": workflow.uid().unwrap()}]);
    let labels = json!({"dataworkflowservices.github.io/workflow.name": name, "nnf.cray.hpe.com/directive_index": "0",
        "dataworkflowservices.github.io/workflow.namespace": "default"});
    let metadata = |name: &str| json!({"name": name, "namespace": "default", "ownerReferences": owner, "labels": labels});
    create::<Computes>(client, json!({"metadata": {"name": name, "ownerReferences": owner}})).await;
    create::<Servers>(client, json!({"metadata": metadata(&directive), "spec": {}})).await;
    create::<DirectiveBreakdown>(
        client,
        json!({"metadata": metadata(&directive), "spec": {"directive": line, "userID": 1}}),
    )
    .await;
    let set = json!({"allocationStrategy": "AllocatePerCompute", "minimumCapacity": 1 << 30, "label": "xfs", "constraints": {}});
    let status = json!({"status": {"ready": true, "storage": {"lifetime": "job", "allocationSets": [set],
        "reference": {"kind": "Servers", "name": directive, "namespace": "default"}}}});
    let api: Api<DirectiveBreakdown> = Api::namespaced(client.clone(), "default");
    api.patch_status(&directive, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

async fn create<K>(client: &Client, object: Value)
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), "default");
    let answer = api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await;
    let is_there = matches!(&answer, Err(kube::Error::Api(status)) if status.code == 409);
    assert!(answer.is_ok() || is_there, "{answer:?}");
}
