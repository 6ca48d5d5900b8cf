use api::{NnfNode, NnfNodeBlockStorage, Servers, names::label};
use serde_json::{from_value, json};

use super::*;

fn engine() -> Engine {
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = Client::try_from(nowhere).unwrap();
    Engine::new(client, Settings::default(), Rules::default())
}

fn place(name: &str) -> ObjectKey {
    ("default".to_owned(), name.to_owned())
}

fn servers(name: &str, since: &str) -> Servers {
    from_value(json!({
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": since},
        "spec": {"allocationSets": [{"label": "xfs", "allocationSize": 60,
            "storage": [{"name": "r", "allocationCount": 1}]}]},
    }))
    .unwrap()
}

/// Before the API has answered the creation of a block storage, a workload manager may fill an older Servers. If the
/// new block storage did not count as allocated, the engine would promise its bytes to the older Servers too.
#[tokio::test]
async fn block_storage_counts_as_allocated_until_the_api_refuses_it() {
    let mut engine = engine();
    let (older, younger) = (place("older"), place("younger"));
    let reservations = &mut engine.world.site.reservations;
    reservations.reserve(&older, Some(&servers("older", "2026-11-24T10:00:00Z")));
    reservations.reserve(&younger, Some(&servers("younger", "2026-11-24T10:00:01Z")));
    let node: NnfNode = from_value(json!({
        "metadata": {"name": "nnf-nlc", "namespace": "r"}, "spec": {"state": "Enable"},
        "status": {"capacity": 100, "capacityAllocated": 0},
    }))
    .unwrap();
    let block: NnfNodeBlockStorage = from_value(json!({
        "metadata": {"name": "b", "namespace": "r", "labels": {
            label::OWNER_KIND: "Servers", label::OWNER_NAME: "younger", label::OWNER_NAMESPACE: "default",
            label::OWNER_UID: "u"}},
        "spec": {"sharedAllocation": true, "allocations": []},
    }))
    .unwrap();
    let free = |engine: &Engine| engine.world.site.reservations.space("r", &node, &older).free;
    assert_eq!(free(&engine), 100);
    engine.start_changes(Key::Workflow(place("w")), vec![Change::create(&block)]);
    assert_eq!(free(&engine), 40);
    let joined = engine.passes.join_next().await.unwrap();
    assert_eq!(joined.as_ref().unwrap().executed.failures.len(), 1);
    engine.finish_pass(joined);
    assert_eq!(free(&engine), 100);
}

/// If the engine made two changes that give names at once, two management targets could give the same name to two file
/// systems.
#[test]
fn changes_that_give_fs_names_are_made_one_at_a_time() {
    let before: api::NnfLustreMgt = from_value(json!({
        "metadata": {"name": "m", "namespace": "r", "uid": "u", "resourceVersion": "1"},
        "spec": {"addresses": ["10.0.0.1@tcp"], "fsNameStart": "aaaaaaaa"},
    }))
    .unwrap();
    let changed = |part: &str, value: serde_json::Value| {
        let mut after = serde_json::to_value(&before).unwrap();
        after["spec"][part] = value;
        Change::patch(&before, &from_value::<api::NnfLustreMgt>(after).unwrap()).unwrap()
    };
    let reference = json!({"kind": "Servers", "name": "w-0", "namespace": "default"});
    let mut named = before.clone();
    named.status = Some(api::NnfLustreMgtStatus::default());
    named.status.as_mut().unwrap().fs_name_next = "aaaaaaab".to_owned();
    assert!(takes_turn(&Change::create(&before), false));
    assert!(takes_turn(&changed("claimList", json!([reference])), false));
    assert!(takes_turn(&Change::status(&before, &named).unwrap(), false));
    let commands = json!([{"reference": reference, "commands": ["true"]}]);
    assert!(!takes_turn(&changed("commandList", commands), true));
}

#[tokio::test]
async fn a_thousand_updates_at_once_cause_one_plan() {
    let mut engine = engine();
    let report = |_| {
        let key = Key::Workflow(("default".to_owned(), "w".to_owned()));
        Update::new(move |_| vec![Wake::Key(key)])
    };
    let mut events = stream::iter(1..1000).map(report).boxed();
    engine.take_in(report(0), &mut events);
    assert!(events.next().await.is_none(), "all updates are taken in");
    assert_eq!(engine.queue.start(Instant::now(), |_| true).len(), 1);
    assert!(engine.queue.start(Instant::now(), |_| true).is_empty());
}
