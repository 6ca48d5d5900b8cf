use api::Storage;
use apiclient::Address;
use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::standalone_coordinator::StandaloneCoordinator;

pub(crate) fn storage(rabbit: &str, status: &Value) -> Value {
    json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Storage",
        "metadata": {"name": rabbit, "namespace": "default"}, "spec": {"state": "Enabled", "mode": "Live"},
        "status": status
    })
}

/// Returns a coordinator with the rabbits rabbit-1, which has a compute with a lost link, and rabbit-2, which is silent.
fn with_rabbits() -> StandaloneCoordinator {
    let here = StandaloneCoordinator::start();
    let compute = |name: &str, status: &str| json!({"name": name, "status": status});
    let computes = [compute("c1", "Ready"), compute("c2", "Offline"), compute("c3", "Ready")];
    let first = json!({"status": "Ready", "capacity": 3_i64 << 40, "type": "NVMe", "rebootRequired": false,
        "access": {"protocol": "PCIe", "servers": [], "computes": computes}});
    let second = json!({"status": "Offline", "capacity": 0, "type": "NVMe", "rebootRequired": false,
        "message": "the agent of rabbit-2 is silent"});
    let block = json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfNodeBlockStorage",
        "metadata": {"name": "w", "namespace": "rabbit-1", "labels": {
            "dataworkflowservices.github.io/workflow.name": "w1",
            "dataworkflowservices.github.io/workflow.namespace": "default"}},
        "spec": {"sharedAllocation": false, "allocations": [
            {"capacity": 1_i64 << 30, "access": ["rabbit-1"]}, {"capacity": 1_i64 << 30, "access": ["rabbit-1"]}]}
    });
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rabbit-1"}});
    let objects = [namespace, storage("rabbit-1", &first), storage("rabbit-2", &second), block];
    let file = here.file("rabbits.yaml", &objects);
    here.output(&["apply", "-f", &file]);
    for (rabbit, status) in [("rabbit-1", first), ("rabbit-2", second)] {
        write_status::<Storage>(&here, "default", rabbit, &status);
    }
    here
}

/// Writes a status as the workflow engine or an agent does.
pub(crate) fn write_status<K>(
    here: &StandaloneCoordinator,
    namespace: &str,
    name: &str,
    status: &Value,
) where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let address = Address::Unix(here.path("api.sock"));
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = apiclient::connect(&address).await.unwrap();
        let api: Api<K> = Api::namespaced(client, namespace);
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    });
}

#[test]
fn rabbits_are_listed_with_status_jobs_links_and_reasons() {
    let here = with_rabbits();
    let listed = here.output(&["rabbit", "list"]);
    let lines: Vec<Vec<&str>> =
        listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["RABBIT", "STATUS", "FREE", "JOBS", "COMPUTES", "REASON"]);
    assert_eq!(lines[1][..6], ["rabbit-1", "Ready", "3.0", "TiB", "1", "c[1-3]"], "{listed}");
    assert!(listed.contains("link of c2 Offline"), "{listed}");
    assert!(listed.contains("the agent of rabbit-2 is silent"), "{listed}");
    let json = here.json(&["rabbit", "list", "rabbit-2", "--json"]);
    assert_eq!(json.as_array().unwrap().len(), 1);
    assert_eq!((&json[0]["status"], &json[0]["jobs"]), (&json!("Offline"), &json!(0)));
    let jobs = here.json(&["rabbit", "jobs", "rabbit-[1-2]", "--json"]);
    assert_eq!(
        jobs,
        json!([{"rabbit": "rabbit-1", "namespace": "default", "name": "w1", "persistent": false, "bytes": 2_i64 << 30}])
    );
}

#[test]
fn one_rabbit_is_shown_with_its_drives_and_the_bytes_of_all_are_summed() {
    let here = with_rabbits();
    let node = json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfNode",
        "metadata": {"name": "nnf-nlc", "namespace": "rabbit-1"}, "spec": {"name": "rabbit-1", "state": "Enable"}
    });
    here.output(&["apply", "-f", &here.file("node.yaml", &[node])]);
    let drive = json!({"slot": "7", "serialNumber": "S1", "model": "M", "capacity": 1_i64 << 40, "wearLevel": 91, "status": "Ready"});
    let status =
        json!({"capacity": 3_i64 << 40, "capacityAllocated": 1_i64 << 40, "drives": [drive]});
    write_status::<api::NnfNode>(&here, "rabbit-1", "nnf-nlc", &status);
    let shown = here.output(&["rabbit", "show", "rabbit-1"]);
    for part in [
        "status     Ready",
        "agent      ",
        "free       3.0 TiB",
        "link of c2 Offline",
        "workflow   default/w1: 2.0 GiB",
        "91 %",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let json = here.json(&["rabbit", "show", "rabbit-1", "--json"]);
    assert_eq!((&json["drives"][0]["slot"], &json["summary"]["jobs"]), (&json!("7"), &json!(1)));
    let sizes = here.output(&["rabbit", "df"]);
    let lines: Vec<Vec<&str>> =
        sizes.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1], ["rabbit-1", "4.0", "TiB", "1.0", "TiB", "3.0", "TiB", "25", "%"]);
    assert_eq!((lines[2][1], lines[3][0]), ("unknown", "all"), "{sizes}");
    here.warren(&["rabbit", "show", "rabbit-7"]).assert().code(2);
    let advice = here.warren(&["rabbit", "advise"]).assert().success();
    let text = String::from_utf8_lossy(&advice.get_output().stderr).into_owned();
    assert!(text.contains("no connected rabbit reports a drive or link that gets worse"), "{text}");
}

#[test]
fn a_drain_disables_and_names_who_has_storage_and_can_wait_until_no_job_has() {
    let here = with_rabbits();
    let drain = ["rabbit", "drain", "rabbit-1", "--reason", "a new fan"];
    let said = here.warren(&drain).assert().success();
    let text = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
    assert!(text.contains("rabbit-1: storage of workflow default/w1"), "{text}");
    let wait = |timeout| [&drain[..], &["--when-idle", "--timeout", timeout]].concat();
    here.warren(&wait("1s")).assert().code(3);
    here.output(&["rabbit", "enable", "rabbit-1"]);
    let state = || here.json(&["get", "storage", "rabbit-1", "-n", "default", "-o", "json"]);
    let idle = std::thread::scope(|scope| {
        let idle = scope.spawn(|| here.warren(&wait("10m")).assert().success());
        while state()["spec"]["state"] != "Disabled" {}
        here.output(&["delete", "nnfnodeblockstorage", "w", "-n", "rabbit-1"]);
        idle.join().unwrap()
    });
    let text = String::from_utf8_lossy(&idle.get_output().stderr).into_owned();
    assert!(
        text.contains("rabbit-1: no readable object says that anything has storage there"),
        "{text}"
    );
}

#[test]
fn a_disabled_rabbit_keeps_reason_user_and_time_until_it_is_enabled() {
    let here = with_rabbits();
    here.warren(&["rabbit", "disable", "rabbit-1"]).assert().code(2);
    let unknown =
        here.warren(&["rabbit", "disable", "rabbit-[1,7]", "--reason", "x"]).assert().code(2);
    let text = String::from_utf8_lossy(&unknown.get_output().stderr).into_owned();
    assert!(text.contains("rabbit-7: there is no readable Storage of such a rabbit"), "{text}");
    let state = |here: &StandaloneCoordinator| {
        here.json(&["get", "storage", "rabbit-1", "-n", "default", "-o", "json"])["spec"]["state"]
            .clone()
    };
    assert_eq!(state(&here), "Enabled", "an unknown name changes nothing");

    here.output(&["rabbit", "disable", "rabbit-[1-2]", "--reason", "fan replaced"]);
    assert_eq!(state(&here), "Disabled");
    let json = here.json(&["rabbit", "list", "rabbit-1", "--json"]);
    let reason = json[0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("fan replaced, by ") && reason.contains(", at 20"), "{reason}");
    here.output(&["rabbit", "enable", "rabbit-1"]);
    assert_eq!(state(&here), "Enabled");
    let json = here.json(&["rabbit", "list", "rabbit-1", "--json"]);
    assert!(json[0].get("reason").is_none(), "{json}");
}
