//! Tests definitions of the kinds by newer software, which have more fields, and by older software, which have fewer.

use api::{ClientMount, NnfLustreMgt, NnfNode, NnfNodeBlockStorage, NnfNodeStorage};
use controller::Object as Kind;
use http::Method;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::bench::{
    Bench, MOUNT, NAME, RABBIT, block_storage, client_mount, mount_ready, node_reported,
    node_storage, retry_until_served, storage_ready, strict_crds,
};

/// Returns definitions that allow fields that our types lack.
fn newer_crds() -> Vec<Value> {
    let mut crds = strict_crds();
    for crd in &mut crds {
        admit_more(&mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
    }
    crds
}

fn admit_more(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    for nested in ["properties"] {
        for (name, inner) in
            members.get_mut(nested).and_then(Value::as_object_mut).into_iter().flatten()
        {
            if name != "metadata" {
                admit_more(inner);
            }
        }
    }
    for nested in ["items", "additionalProperties"] {
        if let Some(inner) = members.get_mut(nested) {
            admit_more(inner);
        }
    }
    if members.get("type") == Some(&json!("object")) && members.contains_key("properties") {
        members.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true));
    }
}

fn dynamic<K: Kind>(client: &Client) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), RABBIT, &ApiResource::erase::<K>(&()))
}

/// Writes fields of future versions into an object's spec, and into its status if the object has one.
async fn mark<K: Kind>(bench: &Bench, name: &str) {
    let api = dynamic::<K>(&bench.client);
    let params = PatchParams::default();
    let spec = json!({"spec": {"future": {"deep": [1, 2]}}});
    api.patch(name, &params, &Patch::Merge(spec)).await.unwrap();
    let object = api.get(name).await.unwrap();
    let mut status = object.data.get("status").cloned().unwrap_or_else(|| json!({}));
    status["future"] = json!("x");
    for list in ["mounts", "allocations", "drives", "servers"] {
        for entry in status[list].as_array_mut().into_iter().flatten() {
            entry["future"] = json!("in an entry");
        }
    }
    status.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    api.patch_status(name, &params, &Patch::Merge(json!({"status": status}))).await.unwrap();
}

async fn overwrite_status<K: Kind>(bench: &Bench, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    dynamic::<K>(&bench.client).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

async fn assert_marked<K: Kind>(bench: &Bench, name: &str, list: &str) {
    let object = dynamic::<K>(&bench.client).get(name).await.unwrap();
    assert_eq!(object.data["spec"]["future"]["deep"], json!([1, 2]), "{object:#?}");
    assert_eq!(object.data["status"]["future"], "x", "{object:#?}");
    let entries = object.data["status"][list].as_array().cloned().unwrap_or_default();
    assert!(entries.iter().all(|entry| entry["future"] == "in an entry"), "{object:#?}");
}

#[tokio::test]
async fn unknown_fields_survive_the_agent_s_writes() {
    let mut bench = Bench::with_crds(newer_crds()).await;
    bench.site().await;
    bench.start();
    bench.file_systems(1).await;
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &["compute-01"])).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    let mgt = json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfLustreMGT",
        "metadata": {"name": "mgt", "namespace": RABBIT}, "spec": {"addresses": []}
    });
    bench.make::<NnfLustreMgt>(RABBIT, mgt).await;
    bench.until("nnf-nlc", "reported", node_reported).await;
    bench.stop().await;
    mark::<ClientMount>(&bench, MOUNT).await;
    mark::<NnfNodeStorage>(&bench, NAME).await;
    mark::<NnfNodeBlockStorage>(&bench, NAME).await;
    mark::<NnfNode>(&bench, "nnf-nlc").await;
    mark::<NnfLustreMgt>(&bench, "mgt").await;
    // The new agent writes its new start time, the removed finalizers and the overwritten statuses.
    let none = json!({"metadata": {"finalizers": null}});
    bench.change::<ClientMount>(MOUNT, none.clone()).await;
    bench.change::<NnfNodeStorage>(NAME, none.clone()).await;
    bench.change::<NnfNodeBlockStorage>(NAME, none).await;
    overwrite_status::<ClientMount>(&bench, MOUNT, json!({"allReady": false})).await;
    overwrite_status::<NnfNodeStorage>(&bench, NAME, json!({"ready": false})).await;
    bench.start();
    bench
        .until(MOUNT, "reported", |mount: &ClientMount| {
            mount_ready(mount) && !mount.finalizers().is_empty()
        })
        .await;
    bench
        .until(NAME, "reported", |storage: &NnfNodeStorage| {
            storage_ready(storage) && !storage.finalizers().is_empty()
        })
        .await;
    bench.make::<NnfNodeBlockStorage>(RABBIT, block_storage("more", &[(1 << 20, &[RABBIT])])).await;
    let allocated = |node: &NnfNode| {
        node.status.as_ref().is_some_and(|status| status.capacity_allocated > 1 << 20)
    };
    bench.until("nnf-nlc", "reported", allocated).await;
    assert_marked::<ClientMount>(&bench, MOUNT, "mounts").await;
    assert_marked::<NnfNodeStorage>(&bench, NAME, "allocations").await;
    assert_marked::<NnfNodeBlockStorage>(&bench, NAME, "allocations").await;
    assert_marked::<NnfNode>(&bench, "nnf-nlc", "drives").await;
    assert_marked::<NnfLustreMgt>(&bench, "mgt", "none").await;
}

/// Returns definitions whose status lacks fields that our agent writes. The API drops these fields without an error.
fn older_crds() -> Vec<Value> {
    let mut crds = strict_crds();
    for crd in &mut crds {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let Some(status) = schema["properties"].get_mut("status") else { continue };
        let pruned: &[&str] = match kind.as_str() {
            "ClientMount" => &["error"],
            "NnfNodeStorage" => &["health"],
            "NnfNodeBlockStorage" => &["error"],
            "NnfNode" => &["capacityAllocated", "drives"],
            _ => &[],
        };
        for field in pruned {
            status["properties"].as_object_mut().unwrap().remove(*field).unwrap();
        }
        if let Some(required) = status.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|field| !pruned.contains(&field.as_str().unwrap()));
        }
    }
    crds
}

#[tokio::test]
async fn pruned_fields_are_not_written_again_and_again() {
    let mut bench = Bench::with_crds(older_crds()).await;
    bench.site().await;
    bench.start();
    bench.file_systems(1).await;
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &["compute-01"])).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    let mut refused = client_mount("refused", &["compute-01"]);
    refused["spec"]["mounts"][0]["mountPath"] = json!("../../etc");
    bench.make::<ClientMount>(RABBIT, refused).await;
    let reported =
        |mount: &ClientMount| mount.status.as_ref().is_some_and(|status| status.mounts.len() == 1);
    bench.until("refused", "reported", reported).await;
    // The work on other objects takes long enough to show an endless loop over the first objects.
    for count in 0..5 {
        let name = format!("other-{count}");
        bench
            .make::<NnfNodeBlockStorage>(RABBIT, block_storage(&name, &[(1 << 20, &[RABBIT])]))
            .await;
        bench.make::<NnfNodeStorage>(RABBIT, node_storage(&name, 1)).await;
        bench.until(&name, "ready", storage_ready).await;
    }
    let requests = bench.requests();
    let writes = |end: &str| {
        requests
            .iter()
            .filter(|(method, path)| *method == Method::PATCH && path.ends_with(end))
            .count()
    };
    for (end, most) in [
        (format!("clientmounts/{MOUNT}/status"), 2),
        ("clientmounts/refused/status".to_owned(), 2),
        (format!("nnfnodestorages/{NAME}/status"), 2),
        (format!("nnfnodeblockstorages/{NAME}/status"), 2),
        // The agent writes once for each change of the capacity.
        ("nnfnodes/nnf-nlc/status".to_owned(), 16),
    ] {
        assert!(writes(&end) <= most, "{end} was written {} times: {requests:#?}", writes(&end));
    }
}

/// Returns definitions that also have the previous version of each kind, as sites serve them.
fn crds_with_previous_version() -> Vec<Value> {
    let mut crds = strict_crds();
    for crd in &mut crds {
        let versions = crd["spec"]["versions"].as_array_mut().unwrap();
        let mut before = versions[0].clone();
        let name = if before["name"] == "v1alpha7" { "v1alpha6" } else { "v1alpha10" };
        before["name"] = json!(name);
        before["storage"] = json!(false);
        versions.push(before);
    }
    crds
}

#[tokio::test]
async fn the_agent_works_on_objects_in_the_previous_api_version() {
    let mut bench = Bench::with_crds(crds_with_previous_version()).await;
    bench.site().await;
    bench.start();
    let mut objects = [
        (
            ApiResource::erase::<NnfNodeBlockStorage>(&()),
            block_storage(NAME, &[(1 << 20, &[RABBIT])]),
        ),
        (ApiResource::erase::<NnfNodeStorage>(&()), node_storage(NAME, 1)),
        (ApiResource::erase::<ClientMount>(&()), client_mount(MOUNT, &["compute-01"])),
    ];
    for (kind, object) in &mut objects {
        kind.version = if kind.version == "v1alpha7" { "v1alpha6" } else { "v1alpha10" }.into();
        kind.api_version = format!("{}/{}", kind.group, kind.version);
        object["apiVersion"] = json!(kind.api_version);
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let api: Api<DynamicObject> = Api::namespaced_with(bench.client.clone(), RABBIT, kind);
        retry_until_served(async || api.create(&PostParams::default(), &object).await).await;
    }
    bench.until(MOUNT, "mounted", mount_ready).await;
    let (kind, _) = &objects[2];
    let api: Api<DynamicObject> = Api::namespaced_with(bench.client.clone(), RABBIT, kind);
    let seen = api.get(MOUNT).await.unwrap();
    assert_eq!(seen.data["status"]["allReady"], true);
    assert_eq!(seen.types.unwrap().api_version, "dataworkflowservices.github.io/v1alpha6");
}
