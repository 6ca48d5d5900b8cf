use serde_json::json;

use super::*;
use crate::samples;

fn cache() -> Cache {
    Cache::new(node())
}

fn node() -> NodeName {
    "rabbit-1".parse().unwrap()
}

fn request(objects: &[Value]) -> PlanRequest {
    let objects = objects.iter().map(|object| serde_json::to_vec(object).unwrap()).collect();
    PlanRequest { objects, ..PlanRequest::default() }
}

fn value(object: &impl serde::Serialize) -> Value {
    serde_json::to_value(object).unwrap()
}

#[test]
fn a_new_object_gets_a_uid_of_its_own_and_no_status() {
    let (mut cache, name) = (cache(), samples::NAME);
    let mut block = value(&samples::block_storage_ready(1));
    block["metadata"]["namespace"].take();
    let keys = take_objects(
        &mut cache,
        &node(),
        &request(&[block, value(&samples::node_storage(1, "xfs")), value(&samples::profile())]),
    );
    let keys = keys.unwrap();
    assert_eq!(keys, [Key::BlockStorage(name.into()), Key::NodeStorage(name.into())]);
    let block = cache.block_storage(name).unwrap();
    assert_eq!((&block.status, block.finalizers().len()), (&None, 0));
    assert_ne!(block.uid(), cache.node_storage(name).unwrap().uid());
    assert!(cache.profile(&**cache.node_storage(name).unwrap()).is_ok());
}

#[test]
fn a_given_object_keeps_what_the_api_has_of_it() {
    let mut cache = cache();
    let mut stored = samples::block_storage_ready(1);
    stored.metadata.resource_version = Some("7".into());
    stored.metadata.finalizers = Some(vec!["own".into()]);
    cache.apply(Event::Applied(Ok(stored.clone())));
    let mut given = value(&samples::block_storage(&[(5, &["rabbit-1"])]));
    given["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000009");
    given["metadata"]["resourceVersion"] = json!("3");
    take_objects(&mut cache, &node(), &request(&[given])).unwrap();
    let now = cache.block_storage(samples::NAME).unwrap();
    assert_eq!(now.spec.allocations[0].capacity, 5);
    assert_eq!((&now.status, now.uid()), (&stored.status, stored.uid()));
    assert_eq!(now.finalizers(), ["own"]);
}

#[test]
fn a_deletion_has_the_finalizer_that_the_agent_adds() {
    let mut cache = cache();
    cache.apply(Event::Applied(Ok(samples::node_storage(1, "xfs"))));
    mark_deleted(&mut cache, &"rabbit-1".parse().unwrap(), &Key::NodeStorage(samples::NAME.into()));
    let object = cache.node_storage(samples::NAME).unwrap();
    assert!(object.metadata.deletion_timestamp.is_some());
    assert_eq!(object.finalizers(), [finalizer::NNF_NODE_STORAGE]);
}

#[test]
fn the_error_for_an_object_that_cannot_be_planned_has_a_remedy() {
    let mut elsewhere = value(&samples::node_storage(1, "xfs"));
    elsewhere["metadata"]["namespace"] = json!("rabbit-2");
    for (object, expected) in [
        (
            elsewhere,
            "NnfNodeStorage rabbit-2/default-job-7-0-xfs-0 is not of this rabbit: set metadata.namespace to rabbit-1",
        ),
        (json!({"kind": "NnfLustreMGT"}), "NnfLustreMGT: a rabbit plans for NnfNodeBlockStorage"),
        (json!({}), "an object without a kind: a rabbit plans for"),
        (json!({"kind": "ClientMount"}), "ClientMount  cannot be read: give every field"),
    ] {
        let error = take_objects(&mut cache(), &node(), &request(&[object])).unwrap_err();
        let text = daemon::chain(&error);
        assert!(text.contains(expected), "{text}");
    }
    let named = |kind: &str| {
        let names = vec![ObjectName { kind: kind.into(), name: samples::NAME.into() }];
        let request = PlanRequest { names, ..PlanRequest::default() };
        let mut cache = cache();
        cache.apply(Event::Applied(Ok(samples::node_storage(1, "xfs"))));
        take_objects(&mut cache, &node(), &request).map_err(|error| error.to_string())
    };
    assert_eq!(named("NnfNodeStorage"), Ok(vec![Key::NodeStorage(samples::NAME.into())]));
    assert!(
        named("clientmounts")
            .unwrap_err()
            .contains("rabbit-1/default-job-7-0-xfs-0 does not exist")
    );
    assert!(named("pod").unwrap_err().starts_with("pod: a rabbit plans for"));
}
