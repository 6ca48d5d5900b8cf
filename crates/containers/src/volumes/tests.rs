use api::{NnfContainerProfileData, names::label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, from_value, json, to_value};

use super::*;
use crate::{
    names, objects,
    run::{Rabbit, StoragePath, StorageSource},
};

const UID: &str = "25cfbc9a-86b8-450a-baa5-9e29c57ca4c2";

fn device(rabbit: &str, place: usize) -> Device {
    Device {
        name: names::volume(UID, 0, rabbit, place),
        path: format!("/mnt/nnf/{UID}-0/node-{place}"),
        capacity: 50_000_000_000,
    }
}

/// Calls `check` with a run of one container on two rabbits, with two devices on the first and one on the second.
fn with_run(check: impl FnOnce(&Run<'_>)) {
    let profile = json!({"spec": {
        "initContainers": [{"name": "first", "image": "i:1"}],
        "containers": [{"name": "app", "image": "i:1"}],
    }});
    let profile: NnfContainerProfileData = from_value(profile).unwrap();
    let metadata = ObjectMeta {
        namespace: Some("default".to_owned()),
        labels: Some([(label::CONTAINER.to_owned(), "w".to_owned())].into()),
        owner_references: Some(vec![OwnerReference::default()]),
        ..ObjectMeta::default()
    };
    let storages = [StoragePath {
        variable: "DW_JOB_scratch".to_owned(),
        path: format!("/mnt/nnf/{UID}-0"),
        source: StorageSource::Rabbit,
    }];
    let rabbit = |name: &str| Rabbit { name: name.to_owned(), computes: Vec::new() };
    let devices = [("r", vec![device("r", 0), device("r", 1)]), ("s", vec![device("s", 0)])];
    check(&Run {
        workflow: "w",
        service: "w",
        name: "w-1",
        metadata,
        user: 1050,
        group: 1051,
        profile: &profile,
        storages: &storages,
        packages: &BTreeMap::new(),
        devices: &devices.map(|(rabbit, devices)| (rabbit.to_owned(), devices)).into(),
        placement: &[rabbit("r"), rabbit("s")],
        ports: &[],
        network_port: None,
        attempt: None,
        cluster_domain: "cluster.local",
    });
}

#[test]
fn a_volume_and_its_claim_name_each_other_and_one_device_of_one_rabbit() {
    with_run(|run| {
        let device = &run.devices_on("r")[1];
        let volume = to_value(volume(run, "r", device)).unwrap();
        let name = format!("{UID}-0-r-1");
        let labels = json!({label::CONTAINER: "w"});
        assert_eq!(volume["metadata"], json!({"name": name, "labels": labels}));
        let terms = json!([{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["r"]}]}]);
        let expected = json!({
            "accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
            "capacity": {"storage": "50000000000"},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": name},
            "local": {"path": format!("/mnt/nnf/{UID}-0/node-1")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            "persistentVolumeReclaimPolicy": "Retain",
        });
        assert_eq!(volume["spec"], expected);
        let claim = to_value(claim(run, device)).unwrap();
        assert_eq!(claim["metadata"]["namespace"], "default");
        assert_eq!(claim["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
        let expected = json!({
            "accessModes": ["ReadWriteOnce"], "volumeMode": "Block", "volumeName": name,
            "storageClassName": "", "resources": {"requests": {"storage": "50000000000"}},
        });
        assert_eq!(claim["spec"], expected);
    });
}

#[test]
fn every_container_of_a_pod_may_open_the_devices_of_its_rabbit_and_no_others() {
    with_run(|run| {
        for (index, (rabbit, count)) in [("r", 2), ("s", 1)].into_iter().enumerate() {
            let job = to_value(objects::job(run, index).unwrap()).unwrap();
            let pod = &job["spec"]["template"]["spec"];
            let volumes = pod["volumes"].as_array().unwrap().iter();
            let claims: Vec<Value> = volumes
                .filter(|volume| volume["persistentVolumeClaim"].is_object())
                .cloned()
                .collect();
            let expected = (0..count).map(|place| {
                let claim = json!({"claimName": names::volume(UID, 0, rabbit, place)});
                json!({"name": format!("storage-device-{place}"), "persistentVolumeClaim": claim})
            });
            assert_eq!(claims, expected.collect::<Vec<_>>());
            let devices = (0..count).map(|place| {
                json!({"name": format!("storage-device-{place}"), "devicePath": format!("/dev/nnf/{place}")})
            });
            let devices = Value::Array(devices.collect());
            for container in [&pod["initContainers"][0], &pod["containers"][0]] {
                assert_eq!(container["volumeDevices"], devices);
                let mounts = container["volumeMounts"].as_array().unwrap();
                let shown = mounts.iter().find(|mount| mount["name"] == "storage-0").unwrap();
                assert_eq!(
                    shown["mountPath"],
                    format!("/mnt/nnf/{UID}-0"),
                    "the storage and its devices have the same path"
                );
            }
        }
    });
}
