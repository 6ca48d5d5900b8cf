//! Tests Kubernetes Events as `kubectl describe` lists them, and an API that refuses to store Events.

use std::time::Duration;

use api::{NnfNode, NnfNodeBlockStorage, names::NNF_NODE};
use http::Method;
use k8s_openapi::api::core::v1::Event;
use kube::{ResourceExt, api::ListParams};

use crate::bench::{
    Bench, NAME, RABBIT, Refused, block_failed, block_ready, block_storage, node_reported,
};

const MIB: i64 = 1 << 20;

/// Returns the first Event of an object with this reason. Selects Events as `kubectl describe` does.
async fn event_of(bench: &Bench, kind: &str, object: &impl ResourceExt, reason: &str) -> Event {
    let (name, uid) = (object.name_any(), object.uid().unwrap());
    let fields = format!(
        "involvedObject.name={name},involvedObject.namespace={RABBIT},involvedObject.kind={kind},involvedObject.uid={uid}"
    );
    let wanted = ListParams::default().fields(&fields);
    let found = async {
        loop {
            let listed = bench.api::<Event>(RABBIT).list(&wanted).await.unwrap();
            let mut matching =
                listed.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
            if let Some(event) = matching.next() {
                return event;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(30), found).await;
    found.unwrap_or_else(|_| panic!("no {reason} of {kind} {name}"))
}

#[tokio::test]
async fn an_allocation_causes_an_event_that_kubectl_describe_finds() {
    let bench = Bench::new().await;
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &[(MIB, &[RABBIT])])).await;
    let object: NnfNodeBlockStorage = bench.until(NAME, "ready", block_ready).await;
    let event = event_of(&bench, "NnfNodeBlockStorage", &object, "AllocationMade").await;
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    assert!(event.message.unwrap().starts_with("made 1 namespaces of "));

    let full = block_storage("full", &[(1 << 40, &[RABBIT])]);
    bench.make::<NnfNodeBlockStorage>(RABBIT, full).await;
    let object: NnfNodeBlockStorage = bench.until("full", "failed", block_failed).await;
    let event = event_of(&bench, "NnfNodeBlockStorage", &object, "AllocationFailed").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert!(event.message.unwrap().contains("insufficient capacity"));
}

#[tokio::test]
async fn a_pulled_drive_causes_an_event_of_the_nnf_node() {
    let bench = Bench::new().await;
    let node: NnfNode = bench.until(NNF_NODE, "reported", node_reported).await;
    bench.host.pull_drive(1);
    bench.status.health.request_check();
    let event = event_of(&bench, "NnfNode", &node, "DriveFailed").await;
    assert!(event.message.unwrap().contains("it is not there any more"));
    assert_eq!(event.involved_object.field_path.as_deref(), Some("status.drives{FAKE0001}"));
}

#[tokio::test]
async fn an_api_that_refuses_an_event_gets_no_further_events_and_the_agent_works_on() {
    let bench = Bench::new().await;
    let is_event =
        |method: &Method, path: &str| *method == Method::POST && path.ends_with("/events");
    bench.refuse(move |request| {
        let refused = is_event(request.method(), request.uri().path());
        refused.then_some(Refused::Status(403, "events is forbidden"))
    });
    for name in ["first", "second", "third"] {
        bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage(name, &[(MIB, &[RABBIT])])).await;
        bench.until(name, "ready", block_ready).await;
        bench.until_requested(1, is_event).await;
    }
    let requests = bench.requests();
    assert_eq!(requests.iter().filter(|(method, path)| is_event(method, path)).count(), 1);
}
