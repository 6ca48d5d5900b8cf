use serde_json::{Value, from_value, json};

use super::*;

pub(crate) const UID: &str = "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21";

/// Returns a NodeContainers with the container `app`.
pub(crate) fn object(edit: impl FnOnce(&mut Value)) -> NodeContainers {
    let mut object = json!({
        "apiVersion": "warren.nnf.cray.hpe.com/v1alpha1", "kind": "NodeContainers",
        "metadata": {"name": "default-w-1", "namespace": "rabbit-1", "uid": UID},
        "spec": {
            "userID": 1001, "groupID": 1002, "hostname": "rabbit-1", "retryLimit": 1,
            "files": {"namespace": "default", "name": "w-1"},
            "containers": [{"name": "app", "image": "app:1", "imagePullPolicy": "IfNotPresent"}],
        },
    });
    edit(&mut object["spec"]);
    from_value(object).unwrap()
}

pub(crate) fn desired(edit: impl FnOnce(&mut Value)) -> Desired {
    Desired::from_object(&object(edit), &roots()).unwrap()
}

fn package(url: &str) -> Value {
    json!({"name": "data", "url": url, "sha256": "0".repeat(64), "size": 1})
}

fn roots() -> AllowedRoots {
    AllowedRoots::new(["/mnt/nnf".into()]).unwrap()
}

/// Mounts the shared directory `name` at `path` in the container `app`, and adds the shared directory
/// `v` to the object.
fn mount(spec: &mut Value, name: &str, path: &str) {
    spec["emptyDirs"] = json!(["v"]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": name, "mountPath": path}]);
}

fn network(port: u32, place: u32, rabbit: &str) -> Value {
    json!({"port": port, "place": place, "rabbits": [rabbit]})
}

#[test]
fn the_error_for_an_invalid_field_names_the_field() {
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 29] = [
        (|spec| spec["userID"] = json!(0), "spec.userID is 0"),
        (|spec| spec["groupID"] = json!(-1), "spec.groupID is -1"),
        (|spec| spec["storages"] = json!(["/etc"]), "/etc"),
        (|spec| spec["storages"] = json!(["/mnt/nnf/../../etc"]), ".."),
        (|spec| spec["storages"] = json!(["/mnt/nnf/a:/etc"]), "no colon"),
        (
            |spec| spec["globalLustre"] = json!(["/lus/../etc"]),
            "spec.globalLustre is \"/lus/../etc\"",
        ),
        (
            |spec| spec["globalLustre"] = json!(["/mnt/nnf/a"]),
            "outside the directories of jobs' storage",
        ),
        (
            |spec| spec["directories"] = json!(["/home/../etc"]),
            "spec.directories is \"/home/../etc\", and must be the absolute path of a directory",
        ),
        (|spec| spec["hostname"] = json!("a b"), "spec.hostname"),
        (|spec| spec["hosts"] = json!({"rabbits": ["r"], "domains": ["x:1.2.3.4"]}), "spec.hosts"),
        (|spec| spec["containers"][0]["image"] = json!("--privileged"), "image"),
        (|spec| spec["containers"][0]["env"] = json!([{"name": "A=B", "value": ""}]), "variable"),
        (
            |spec| spec["packages"] = json!([package("http://server/a"), package("/lus/../etc")]),
            "spec.packages[1].url is \"/lus/../etc\"",
        ),
        (
            |spec| spec["packages"] = json!([package("/lus/a"), package("/lus/b")]),
            "spec.packages is \"data\", and another has the same name",
        ),
        (|spec| spec["emptyDirs"] = json!(["../v"]), "spec.emptyDirs is \"../v\""),
        (|spec| spec["emptyDirs"] = json!(["v", "v"]), "another has the same name"),
        (|spec| mount(spec, "w", "/v"), "must be one of spec.emptyDirs"),
        (|spec| mount(spec, "v", "/v:/etc"), "without a colon"),
        (|spec| spec["network"] = network(0, 0, "rabbit-1"), "port 0, place 0"),
        (|spec| spec["network"] = network(5000, 1, "rabbit-1"), "port 5000, place 1"),
        (|spec| spec["network"] = network(5000, 0, "a;b"), "spec.network.rabbits"),
        (
            |spec| spec["terminationGracePeriodSeconds"] = json!(i64::MAX),
            "spec.terminationGracePeriodSeconds is 9223372036854775807: use 0 to 86400",
        ),
        (|spec| spec["terminationGracePeriodSeconds"] = json!(-1), "is -1: use 0 to 86400"),
        (|spec| spec["activeDeadlineSeconds"] = json!(0), "spec.activeDeadlineSeconds is 0"),
        (
            |spec| spec["containers"][0]["ports"] = json!([5000, -1]),
            "container app: ports is -1: use 1 to 65535",
        ),
        (|spec| spec["containers"][0]["ports"] = json!([99999]), "ports is 99999"),
        (|spec| spec["containers"][0]["cpuMillis"] = json!(0), "container app: cpuMillis is 0"),
        (|spec| spec["containers"][0]["memoryBytes"] = json!(-1), "memoryBytes is -1"),
        (|spec| spec["initContainers"] = spec["containers"].clone(), "the same name"),
    ];
    for (edit, part) in cases {
        let error = daemon::chain(&Desired::from_object(&object(edit), &roots()).unwrap_err());
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(desired(|_| {}).attempts(), 2);
    let endless = object(|spec| spec["terminationGracePeriodSeconds"] = json!(i64::MAX));
    assert_eq!(grace(&endless.spec), 86_400, "the limit holds for a rejected object too");
}
