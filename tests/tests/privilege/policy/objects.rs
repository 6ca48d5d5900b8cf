//! Objects that the writes of the cases change.

use api::names::finalizer;
use serde_json::{Value, json};
use tests::centre::{Chassis, Job};

/// Returns an NnfLustreMGT with one request for a file system name.
pub(crate) fn lustre_mgt(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfLustreMGT",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"addresses": ["10.0.0.1@tcp"], "fsNameStart": "aaaaaaaa", "claimList": [{"name": "wants-a-name"}]},
    })
}

/// A finalizer of another controller.
pub(super) const FOREIGN: &str = "central.example/holds";

pub(super) fn client_mount(name: &str, namespace: &str) -> Value {
    let chassis = Chassis::new(1);
    let mut mount = Job::new(1, "xfs", "/mnt/nnf").rabbit_mount(&chassis);
    mount["metadata"] = json!({"name": name, "namespace": namespace, "finalizers": [FOREIGN]});
    mount["spec"]["node"] = json!(namespace);
    mount
}

pub(super) fn nnf_node(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfNode",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"name": namespace, "pod": "one", "state": "Enable"},
    })
}

/// Returns a NodeContainers object, which lists the job packages and containers that a rabbit must have.
fn node_containers(rabbit: &str) -> Value {
    json!({
        "apiVersion": "warren.nnf.cray.hpe.com/v1alpha1", "kind": "NodeContainers",
        "metadata": {"name": "packs", "namespace": rabbit},
        "spec": {"userID": 1001, "groupID": 1002, "hostname": rabbit},
    })
}

pub(super) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

pub(super) fn objects() -> Vec<Value> {
    let chassis = Chassis::new(1);
    let mut objects = vec![chassis.system_configuration()];
    let job = Job::new(1, "xfs", "/mnt/nnf");
    let mut profile = job.profile();
    profile["metadata"]["name"] = json!("pinned");
    objects.push(profile);
    for node in ["compute-1", "compute-2", "rabbit-1", "rabbit-2"] {
        let mut held = client_mount("held", node);
        held["metadata"]["finalizers"] = json!([FOREIGN, finalizer::CLIENT_MOUNT]);
        objects.extend([client_mount("free", node), held]);
    }
    for node in ["rabbit-1", "rabbit-2"] {
        objects.extend([nnf_node("nnf-nlc", node), nnf_node("other", node), node_containers(node)]);
        let mut names = lustre_mgt("names", node);
        names["metadata"]["finalizers"] = json!([finalizer::NNF_LUSTRE_MGT]);
        objects.push(names);
        for mut object in [job.block_storage(&chassis, false), job.file_systems(&chassis)] {
            object["metadata"] = json!({"name": "work", "namespace": node});
            objects.push(object);
        }
    }
    objects
}
