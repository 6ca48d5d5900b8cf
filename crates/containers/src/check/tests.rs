use serde_json::{Value, from_value, json};

use super::*;

fn faults_of(edit: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut profile = json!({"spec": {"containers": [{"name": "app", "image": "i"}]}});
    edit(&mut profile);
    let profile = from_value(profile).unwrap();
    faults(&profile, 1001).iter().map(ToString::to_string).collect()
}

fn package(name: &str, url: &str) -> Value {
    json!({"name": name, "url": url, "sha256": "0".repeat(64), "size": 1})
}

#[test]
fn a_supported_profile_has_no_faults() {
    assert!(faults_of(|_| {}).is_empty());
    let more = faults_of(|profile| {
        profile["storages"] = json!([{"name": "DW_GLOBAL_home", "pvcMode": "ReadOnlyMany"}]);
        profile["spec"]["initContainers"] = json!([{"name": "first", "image": "i"}]);
        profile["spec"]["volumes"] = json!([{"name": "memory", "emptyDir": {"medium": "Memory"}}]);
        profile["spec"]["automountServiceAccountToken"] = json!(false);
        profile["packages"] = json!([package("a", "/lus/a"), package("b", "https://server/a")]);
    });
    assert!(more.is_empty(), "{more:?}");
}

#[test]
fn each_fault_of_a_profile_has_its_field_and_remedy() {
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 22] = [
        (|data| data["spec"] = Value::Null, "neither spec nor mpiSpec"),
        (
            |data| data["mpiSpec"] = json!({"launcher": data["spec"], "worker": data["spec"]}),
            "both spec and mpiSpec",
        ),
        (
            |data| data["spec"]["containers"][0]["name"] = json!("nnf-wait"),
            "reserved for Warren's own",
        ),
        (|data| data["createContainer"] = json!(false), "createContainer is false"),
        (|data| data["spec"]["containers"] = json!([]), "data.spec: containers is empty"),
        (
            |data| data["spec"]["containers"][0]["name"] = json!("App"),
            "data.spec: container \"App\": a name",
        ),
        (
            |data| data["spec"]["initContainers"] = json!([{"name": "app", "image": "i"}]),
            "data.spec: container \"app\" occurs twice",
        ),
        (
            |data| data["spec"]["containers"][0]["name"] = json!("my-copy-offload"),
            "reserved for copy offload",
        ),
        (|data| data["spec"]["containers"][0]["image"] = json!(""), "has no image"),
        (
            |data| data["spec"]["containers"][0]["env"] = json!([{"name": "A=B", "value": "c"}]),
            "container \"app\": env \"A=B\" is not a valid name of a variable",
        ),
        (
            |data| data["spec"]["containers"][0]["env"] = json!([{"name": "A\n", "value": "c"}]),
            "env \"A\\n\" is not a valid name of a variable",
        ),
        (
            |data| data["spec"]["volumes"] = json!([{"name": "storage-0", "emptyDir": {}}]),
            "reserved for Warren's own",
        ),
        (
            |data| data["spec"]["volumes"] = json!([{"name": "nnf-config", "emptyDir": {}}]),
            "reserved for Warren's own",
        ),
        (
            |data| data["spec"]["volumes"] = json!([{"name": "v", "hostPath": {"path": "/"}}]),
            "is a hostPath",
        ),
        (|data| data["spec"]["automountServiceAccountToken"] = json!(true), "no token for the API"),
        (
            |data| data["storages"] = json!([{"name": "DW_JOB_a", "pvcMode": "ReadOnlyMany"}]),
            "DW_GLOBAL_ only",
        ),
        (|data| data["retryLimit"] = json!(-1), "data.retryLimit is -1"),
        (
            |data| {
                data["spec"]["containers"][0]["volumeMounts"] =
                    json!([{"name": "v", "mountPath": "/nnf/keys"}]);
            },
            "data.spec: container \"app\" has a volumeMount at /nnf/keys: /nnf is reserved for Warren's own files; ask the administrator to mount it elsewhere",
        ),
        (
            |data| {
                data["spec"]["initContainers"] = json!([{"name": "first", "image": "i",
                "volumeMounts": [{"name": "v", "mountPath": "/etc/mpi/"}]}]);
            },
            "container \"first\" has a volumeMount at /etc/mpi/: /etc/mpi is reserved",
        ),
        (|data| data["numPorts"] = json!(-2), "data.numPorts is -2"),
        (
            |data| data["packages"] = json!([package("a", "ftp://server/a")]),
            "data.packages[0].url is \"ftp://server/a\", and must begin with https:// or http://, or be the absolute path of a file that every rabbit sees: ask the administrator to correct it",
        ),
        (
            |data| data["packages"] = json!([package("a", "/lus/a"), package("a", "/lus/b")]),
            "data.packages: \"a\" occurs twice",
        ),
    ];
    for (edit, part) in cases {
        let faults = faults_of(edit);
        assert_eq!(faults.len(), 1, "{part}: {faults:?}");
        assert!(faults[0].contains(part), "{part}: {faults:?}");
    }
}

#[test]
fn each_fault_of_an_mpi_spec_has_its_field_and_remedy() {
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 18] = [
        (|_| {}, ""),
        (|data| data["runPolicy"] = json!({"suspend": false, "managedBy": ""}), ""),
        (|data| data["launcherCreationPolicy"] = json!("WaitForWorkersReady"), ""),
        (
            |data| data["launcherCreationPolicy"] = json!("AtStartup"),
            "data.mpiSpec.launcherCreationPolicy is \"AtStartup\", which Warren does not support: ask the administrator to remove it",
        ),
        (
            |data| data["runPolicy"] = json!({"activeDeadlineSeconds": 600}),
            "data.mpiSpec.runPolicy.activeDeadlineSeconds is 600, which Warren does not support: ask the administrator to remove it",
        ),
        (
            |data| data["runPolicy"] = json!({"backoffLimit": 0}),
            "data.mpiSpec.runPolicy.backoffLimit is 0, which Warren does not support: ask the administrator to write it as data.retryLimit",
        ),
        (
            |data| data["runPolicy"] = json!({"suspend": true}),
            "data.mpiSpec.runPolicy.suspend is true, which Warren does not support: ask the administrator to remove it; the annotation nnf.cray.hpe.com/suspend-containers",
        ),
        (
            |data| data["runPolicy"] = json!({"managedBy": "kueue.x-k8s.io/multikueue"}),
            "data.mpiSpec.runPolicy.managedBy is \"kueue.x-k8s.io/multikueue\", which Warren does not support: ask the administrator to remove it",
        ),
        (
            |data| data["runPolicy"] = json!({"ttlSecondsAfterFinished": -1}),
            "data.mpiSpec.runPolicy.ttlSecondsAfterFinished is -1",
        ),
        (
            |data| {
                data["worker"]["containers"][0]["readinessProbe"] =
                    json!({"exec": {"command": ["true"]}});
            },
            "data.mpiSpec.worker: container \"app\" has a readinessProbe",
        ),
        (
            |data| {
                data["launcher"]["containers"][0]["readinessProbe"] =
                    json!({"exec": {"command": ["true"]}});
            },
            "",
        ),
        (|data| data["launcher"]["containers"] = json!([]), "data.mpiSpec.launcher: containers is"),
        (|data| data["worker"]["containers"][0]["image"] = json!(""), "data.mpiSpec.worker: cont"),
        (|data| data["worker"]["containers"][0]["args"] = json!(["-De"]), "has a command"),
        (|data| data["copyOffload"] = json!(true), "data.mpiSpec.copyOffload is true"),
        (|data| data["slotsPerWorker"] = json!(0), "data.mpiSpec.slotsPerWorker is 0"),
        (
            |data| data["mpiImplementation"] = json!("LAM"),
            "data.mpiSpec.mpiImplementation is \"LAM\", which is not known: ask the administrator to write one of OpenMPI, Intel, MPICH",
        ),
        (
            |data| data["runPolicy"] = json!({"cleanPodPolicy": "Some"}),
            "data.mpiSpec.runPolicy.cleanPodPolicy is \"Some\"",
        ),
    ];
    for (edit, part) in cases {
        let faults = faults_of(|data| {
            let mut mpi = json!({"launcher": data["spec"], "worker": data["spec"]});
            edit(&mut mpi);
            *data = json!({"mpiSpec": mpi});
        });
        assert_eq!(faults.len(), usize::from(!part.is_empty()), "{part}: {faults:?}");
        assert!(faults.iter().all(|fault| fault.contains(part)), "{part}: {faults:?}");
    }
}

#[test]
fn a_workflow_of_root_gets_no_containers() {
    let profile = from_value(json!({"spec": {"containers": [{"name": "app", "image": "i"}]}}));
    assert_eq!(faults(&profile.unwrap(), 0), [ProfileFault::Root]);
}

#[test]
fn only_whole_words_are_reserved_for_copy_offload() {
    for (name, is_kept) in [
        ("copy-offload", true),
        ("copyoffload", true),
        ("a-copyoffload-b", true),
        ("copyoffloads", false),
        ("my-copy", false),
    ] {
        assert_eq!(pod::is_copy_offload(name), is_kept, "{name}");
    }
}

#[test]
fn a_volume_may_be_mounted_where_warren_mounts_no_files() {
    let faults_at = |path: &str| {
        faults_of(|data| {
            data["spec"]["containers"][0]["volumeMounts"] =
                json!([{"name": "v", "mountPath": path}]);
        })
    };
    for path in ["/data", "/nnfx", "/etc/mpich", "/etc", "/home/nnf", "/etc/mpi/../other"] {
        assert_eq!(faults_at(path), [""; 0], "{path}");
    }
    for path in [
        "/nnf",
        "/nnf/",
        "//nnf/config",
        "/./nnf",
        "/etc/passwd",
        "/etc/group",
        "/x/../nnf",
        "/dev/nnf/0",
    ] {
        let faults = faults_at(path);
        assert!(
            faults.len() == 1 && faults[0].contains("is reserved for Warren's own files"),
            "{path}: {faults:?}"
        );
    }
}

#[test]
fn fields_that_only_kubernetes_implements_are_refused_where_rabbits_run_containers() {
    let faults_of = |edit: fn(&mut Value)| -> Vec<String> {
        let mut profile = json!({"spec": {"containers": [{"name": "app", "image": "i"}]}});
        edit(&mut profile);
        let faults = faults_on_rabbits(&from_value(profile).unwrap());
        faults.iter().map(ToString::to_string).collect()
    };
    assert!(faults_of(|_| {}).is_empty());
    type Edit = fn(&mut Value);
    let app = |field: &'static str, value: Value| (field, value);
    for (field, value) in [
        app(
            "env",
            json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]),
        ),
        app("envFrom", json!([{"secretRef": {"name": "s"}}])),
        app("livenessProbe", json!({})),
        app("readinessProbe", json!({})),
        app("startupProbe", json!({})),
        app("restartPolicy", json!("Always")),
        app("terminationMessagePath", json!("/dev/log")),
        app("image", json!("-i")),
        app("resources", json!({"limits": {"cpu": "many"}})),
        app("resources", json!({"limits": {"example.com/gpu": "1"}})),
    ] {
        let mut profile = json!({"spec": {"containers": [{"name": "app", "image": "i"}]}});
        profile["spec"]["containers"][0][field] = value;
        let faults = faults_on_rabbits(&from_value(profile).unwrap());
        let [fault] = &faults[..] else { panic!("{field}: {faults:?}") };
        let fault = fault.to_string();
        assert!(fault.contains(field) && fault.contains("administrator"), "{fault}");
    }
    let pods: [(Edit, &str); 4] = [
        (|profile| profile["spec"]["imagePullSecrets"] = json!([{"name": "s"}]), "podman login"),
        (|profile| profile["spec"]["priorityClassName"] = json!("high"), "priorityClassName"),
        (
            |profile| profile["spec"]["terminationGracePeriodSeconds"] = json!(i64::MAX),
            "data.spec.terminationGracePeriodSeconds is not supported",
        ),
        (
            |profile| {
                let mut worker = profile["spec"].clone();
                worker["volumes"] = json!([{"name": "v", "hostPath": {"path": "/"}}]);
                *profile = json!({"mpiSpec": {"launcher": profile["spec"], "worker": worker}});
            },
            "data.mpiSpec.worker.volumes: \"v\": hostPath",
        ),
    ];
    for (edit, part) in pods {
        let faults = faults_of(edit);
        assert!(faults.len() == 1 && faults[0].contains(part), "{faults:?}");
    }
}
