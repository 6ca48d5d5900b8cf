//! Adoption and release of the objects that the Go controllers left.

use serde::Deserialize;

use super::*;

const SHARED: &str = include_str!("../../../../../tests/fixtures/persistent-of-go/shared.yaml");

/// Returns the objects of the storage `shared`.
fn shared() -> Objects {
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    for document in serde_saphyr::from_multiple::<Value>(SHARED).unwrap() {
        let object = DynamicObject::deserialize(document).unwrap();
        let types = object.types.clone().unwrap();
        let (group, version) = types.api_version.split_once('/').unwrap();
        let kind = kube::api::GroupVersionKind::gvk(group, version, &types.kind);
        let resource = ApiResource::from_gvk(&kind);
        found.insert(types.kind, Found { resource, object });
    }
    let mut take = |kind: &str| found.remove(kind).unwrap();
    Objects {
        instance: take("PersistentStorageInstance"),
        storage: Some(take("NnfStorage")),
        servers: Some(take("Servers")),
        profile: Some(take("NnfStorageProfile")),
        on_rabbits: vec![take("NnfNodeStorage"), take("NnfNodeBlockStorage")],
        mounted_on: BTreeSet::new(),
    }
}

/// Applies the first `count` steps to the objects.
fn apply(objects: &mut Objects, steps: &[Step], count: usize) {
    for step in steps.iter().take(count) {
        let optional = [&mut objects.storage, &mut objects.servers, &mut objects.profile];
        let all = optional.into_iter().flatten().chain(&mut objects.on_rabbits);
        let found = all
            .chain([&mut objects.instance])
            .find(|found| {
                found.resource.kind == step.resource.kind && found.object.name_any() == step.name
            })
            .unwrap();
        let mut value = serde_json::to_value(&found.object).unwrap();
        json_patch::merge(&mut value, &step.patch);
        found.object = serde_json::from_value(value).unwrap();
    }
}

fn whats(steps: &[Step]) -> Vec<&str> {
    steps.iter().map(|step| step.what.as_str()).collect()
}

/// Everything of an object except empty maps, which a merge patch leaves behind.
fn contents(objects: &Objects) -> Vec<Value> {
    let rest = [&objects.storage, &objects.servers, &objects.profile].into_iter().flatten();
    let all = [&objects.instance].into_iter().chain(rest).chain(&objects.on_rabbits);
    let value = |found: &Found| {
        let mut object = found.object.clone();
        object.metadata.labels = Some(object.labels().clone()).filter(|labels| !labels.is_empty());
        object.metadata.annotations =
            Some(object.annotations().clone()).filter(|notes| !notes.is_empty());
        serde_json::to_value(object).unwrap()
    };
    all.map(value).collect()
}

#[test]
fn adoption_adds_labels_and_release_leaves_every_object_as_it_was() {
    let (before, mut objects) = (shared(), shared());
    let steps = adopt(&objects).unwrap();
    assert_eq!(
        whats(&steps),
        [
            "remove the Go controllers' finalizer from NnfStorage default/shared",
            "add the labels of Warren to Servers default/shared",
            "add the labels of Warren to NnfStorageProfile default/shared",
            "add the labels of Warren to NnfNodeStorage rabbit-1/default-shared-xfs-0",
            "add the labels of Warren to NnfNodeBlockStorage rabbit-1/default-shared-xfs-0",
            "add the labels of Warren to PersistentStorageInstance default/shared",
        ]
    );
    apply(&mut objects, &steps, steps.len());
    assert_eq!(adopt(&objects), Ok(Vec::new()), "an adopted storage needs no step");
    let given = release(&objects).unwrap();
    assert_eq!(
        whats(&given),
        [
            "remove the label of Warren from PersistentStorageInstance default/shared",
            "remove the labels of Warren from NnfNodeStorage rabbit-1/default-shared-xfs-0",
            "remove the labels of Warren from NnfNodeBlockStorage rabbit-1/default-shared-xfs-0",
            "remove the labels of Warren from NnfStorageProfile default/shared",
            "remove the labels of Warren from Servers default/shared",
            "add the Go controllers' finalizer to NnfStorage default/shared",
            "remove the labels of Warren from PersistentStorageInstance default/shared",
        ]
    );
    apply(&mut objects, &given, given.len());
    assert_eq!(contents(&objects), contents(&before));
    assert_eq!(release(&objects), Ok(Vec::new()), "a released storage needs no step");
}

#[test]
fn an_adoption_or_release_that_was_interrupted_goes_on() {
    let all = adopt(&shared()).unwrap();
    for done in 0..all.len() {
        let mut objects = shared();
        apply(&mut objects, &all, done);
        assert_eq!(whats(&adopt(&objects).unwrap()), whats(&all)[done..]);
        let back = release(&objects).unwrap();
        apply(&mut objects, &back, back.len());
        assert_eq!(release(&objects), Ok(Vec::new()), "after {done} steps");
    }
}

#[test]
fn a_release_that_was_interrupted_goes_on_or_is_taken_back() {
    let mut adopted = shared();
    let steps = adopt(&adopted).unwrap();
    apply(&mut adopted, &steps, steps.len());
    let all = release(&adopted).unwrap();
    for done in 0..all.len() {
        let mut objects = adopted.clone();
        apply(&mut objects, &all, done);
        assert_eq!(whats(&release(&objects).unwrap()), whats(&all)[done..]);
        let again = adopt(&objects).unwrap();
        apply(&mut objects, &again, again.len());
        assert_eq!(adopt(&objects), Ok(Vec::new()));
        let back = release(&objects).unwrap();
        apply(&mut objects, &back, back.len());
        assert_eq!(contents(&objects), contents(&shared()), "after {done} steps");
    }
}

#[test]
fn the_servers_keep_the_uid_after_which_the_volumes_are_named() {
    let steps = adopt(&shared()).unwrap();
    let notes = &steps[1].patch["metadata"]["annotations"];
    assert_eq!(notes[annotation::ADOPTED_FROM], "fea05af6-a50e-476e-8723-41caee9c34ce");
    assert_eq!(notes[annotation::ADOPTED_LABELS], label::DIRECTIVE_INDEX);
}

#[test]
fn storage_that_is_in_use_or_not_complete_is_refused() {
    let refused = |change: &dyn Fn(&mut Objects)| {
        let mut objects = shared();
        change(&mut objects);
        adopt(&objects).unwrap_err()
    };
    let used =
        json!([{"kind": "Workflow", "name": "w-0"}, {"kind": "NnfStorage", "name": "other"}]);
    let set = |at: &'static str, value: Value| {
        move |objects: &mut Objects| objects.instance.object.data["spec"][at] = value.clone()
    };
    assert_eq!(refused(&set("consumerReferences", used)), AdoptionError::Used("w-0".into()));
    assert_eq!(refused(&set("state", json!("Destroying"))), AdoptionError::Destroying);
    let owned = |objects: &mut Objects| {
        let owners = objects.storage.as_ref().unwrap().object.metadata.owner_references.clone();
        objects.instance.object.metadata.owner_references = owners;
    };
    assert_eq!(
        refused(&owned),
        AdoptionError::Unfinished("PersistentStorageInstance shared".into())
    );
    let mounted = |objects: &mut Objects| objects.mounted_on = ["c2".into(), "c1".into()].into();
    assert_eq!(refused(&mounted), AdoptionError::Mounted("c[1-2]".into()));
    let unheld = |objects: &mut Objects| objects.instance.object.metadata.finalizers = None;
    assert!(matches!(refused(&unheld), AdoptionError::Unheld(..)));
    assert_eq!(refused(&|objects| objects.servers = None), AdoptionError::Missing("Servers"));
    let without_block = |objects: &mut Objects| drop(objects.on_rabbits.pop());
    assert_eq!(refused(&without_block), AdoptionError::Incomplete { found: 0, expected: 1 });
    let foreign = |objects: &mut Objects| {
        let storage = &mut objects.storage.as_mut().unwrap().object;
        storage.labels_mut().insert(label::OWNER_UID.into(), "other".into());
    };
    assert_eq!(refused(&foreign), AdoptionError::Foreign("other".into()));
    let labelled = |objects: &mut Objects| {
        let object = &mut objects.on_rabbits[0].object;
        object.labels_mut().insert(label::PERSISTENT_NAME.into(), "other".into());
    };
    assert!(matches!(refused(&labelled), AdoptionError::Labelled { .. }));
}

#[test]
fn storage_that_warren_made_is_neither_adopted_nor_released() {
    let mut objects = shared();
    objects.instance.object.labels_mut().insert(label::WORKFLOW_UID.into(), "w".into());
    assert_eq!(adopt(&objects), Ok(Vec::new()));
    assert_eq!(release(&objects), Err(AdoptionError::MadeByWarren));
}
