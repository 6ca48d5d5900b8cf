use serde_json::{Value, from_value, json};

use super::*;

fn told(edit: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut profile = json!({"spec": {"containers": [{"name": "app", "image": "i"}]}});
    edit(&mut profile);
    let profile = from_value(profile).unwrap();
    faults(&profile, 1001).iter().map(ToString::to_string).collect()
}

#[test]
fn a_pod_for_each_rabbit_can_be_carried_out() {
    assert!(told(|_| {}).is_empty());
    let more = told(|profile| {
        profile["storages"] = json!([{"name": "DW_GLOBAL_home", "pvcMode": "ReadOnlyMany"}]);
        profile["spec"]["initContainers"] = json!([{"name": "first", "image": "i"}]);
        profile["spec"]["volumes"] = json!([{"name": "memory", "emptyDir": {"medium": "Memory"}}]);
        profile["spec"]["automountServiceAccountToken"] = json!(false);
    });
    assert!(more.is_empty(), "{more:?}");
}

#[test]
fn each_fault_names_its_field_and_who_mends_it() {
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 18] = [
        (|it| it["spec"] = Value::Null, "neither spec nor mpiSpec"),
        (
            |it| it["mpiSpec"] = json!({"launcher": it["spec"], "worker": it["spec"]}),
            "both spec and mpiSpec",
        ),
        (|it| it["spec"]["containers"][0]["name"] = json!("nnf-wait"), "kept for Warren's own"),
        (|it| it["createContainer"] = json!(false), "createContainer is false"),
        (|it| it["spec"]["containers"] = json!([]), "data.spec: containers is empty"),
        (
            |it| it["spec"]["containers"][0]["name"] = json!("App"),
            "data.spec: container \"App\": a name",
        ),
        (
            |it| it["spec"]["initContainers"] = json!([{"name": "app", "image": "i"}]),
            "data.spec: container \"app\" is there twice",
        ),
        (
            |it| it["spec"]["containers"][0]["name"] = json!("my-copy-offload"),
            "kept for copy offload",
        ),
        (|it| it["spec"]["containers"][0]["image"] = json!(""), "has no image"),
        (
            |it| it["spec"]["volumes"] = json!([{"name": "storage-0", "emptyDir": {}}]),
            "kept for Warren's own",
        ),
        (
            |it| it["spec"]["volumes"] = json!([{"name": "nnf-config", "emptyDir": {}}]),
            "kept for Warren's own",
        ),
        (
            |it| it["spec"]["volumes"] = json!([{"name": "v", "hostPath": {"path": "/"}}]),
            "is a hostPath",
        ),
        (|it| it["spec"]["automountServiceAccountToken"] = json!(true), "no token for the API"),
        (
            |it| it["storages"] = json!([{"name": "DW_JOB_a", "pvcMode": "ReadOnlyMany"}]),
            "DW_GLOBAL_ only",
        ),
        (|it| it["retryLimit"] = json!(-1), "data.retryLimit is -1"),
        (
            |it| {
                it["spec"]["containers"][0]["volumeMounts"] =
                    json!([{"name": "v", "mountPath": "/nnf/keys"}]);
            },
            "data.spec: container \"app\" has a volumeMount at /nnf/keys: /nnf is kept for Warren's own files; the administrator mounts it elsewhere",
        ),
        (
            |it| {
                it["spec"]["initContainers"] = json!([{"name": "first", "image": "i",
                "volumeMounts": [{"name": "v", "mountPath": "/etc/mpi/"}]}]);
            },
            "container \"first\" has a volumeMount at /etc/mpi/: /etc/mpi is kept",
        ),
        (|it| it["numPorts"] = json!(-2), "data.numPorts is -2"),
    ];
    for (edit, part) in cases {
        let told = told(edit);
        assert_eq!(told.len(), 1, "{part}: {told:?}");
        assert!(told[0].contains(part), "{part}: {told:?}");
    }
}

#[test]
fn each_fault_of_mpi_names_its_field_and_who_mends_it() {
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 18] = [
        (|_| {}, ""),
        (|it| it["runPolicy"] = json!({"suspend": false, "managedBy": ""}), ""),
        (|it| it["launcherCreationPolicy"] = json!("WaitForWorkersReady"), ""),
        (
            |it| it["launcherCreationPolicy"] = json!("AtStartup"),
            "data.mpiSpec.launcherCreationPolicy is \"AtStartup\", which is not carried out here: the administrator takes it out",
        ),
        (
            |it| it["runPolicy"] = json!({"activeDeadlineSeconds": 600}),
            "data.mpiSpec.runPolicy.activeDeadlineSeconds is 600, which is not carried out here: the administrator takes it out",
        ),
        (
            |it| it["runPolicy"] = json!({"backoffLimit": 0}),
            "data.mpiSpec.runPolicy.backoffLimit is 0, which is not carried out here: the administrator writes it as data.retryLimit",
        ),
        (
            |it| it["runPolicy"] = json!({"suspend": true}),
            "data.mpiSpec.runPolicy.suspend is true, which is not carried out here: the administrator takes it out; the annotation nnf.cray.hpe.com/suspend-containers",
        ),
        (
            |it| it["runPolicy"] = json!({"managedBy": "kueue.x-k8s.io/multikueue"}),
            "data.mpiSpec.runPolicy.managedBy is \"kueue.x-k8s.io/multikueue\", which is not carried out here: the administrator takes it out",
        ),
        (
            |it| it["runPolicy"] = json!({"ttlSecondsAfterFinished": -1}),
            "data.mpiSpec.runPolicy.ttlSecondsAfterFinished is -1",
        ),
        (
            |it| {
                it["worker"]["containers"][0]["readinessProbe"] =
                    json!({"exec": {"command": ["true"]}});
            },
            "data.mpiSpec.worker: container \"app\" has a readinessProbe",
        ),
        (
            |it| {
                it["launcher"]["containers"][0]["readinessProbe"] =
                    json!({"exec": {"command": ["true"]}});
            },
            "",
        ),
        (|it| it["launcher"]["containers"] = json!([]), "data.mpiSpec.launcher: containers is"),
        (|it| it["worker"]["containers"][0]["image"] = json!(""), "data.mpiSpec.worker: cont"),
        (|it| it["worker"]["containers"][0]["args"] = json!(["-De"]), "has a command"),
        (|it| it["copyOffload"] = json!(true), "data.mpiSpec.copyOffload is true"),
        (|it| it["slotsPerWorker"] = json!(0), "data.mpiSpec.slotsPerWorker is 0"),
        (
            |it| it["mpiImplementation"] = json!("LAM"),
            "data.mpiSpec.mpiImplementation is \"LAM\", which is not known: the administrator writes one of OpenMPI, Intel, MPICH",
        ),
        (
            |it| it["runPolicy"] = json!({"cleanPodPolicy": "Some"}),
            "data.mpiSpec.runPolicy.cleanPodPolicy is \"Some\"",
        ),
    ];
    for (edit, part) in cases {
        let told = told(|it| {
            let mut mpi = json!({"launcher": it["spec"], "worker": it["spec"]});
            edit(&mut mpi);
            *it = json!({"mpiSpec": mpi});
        });
        assert_eq!(told.len(), usize::from(!part.is_empty()), "{part}: {told:?}");
        assert!(told.iter().all(|one| one.contains(part)), "{part}: {told:?}");
    }
}

#[test]
fn nobody_is_root_in_a_container() {
    let profile = from_value(json!({"spec": {"containers": [{"name": "app", "image": "i"}]}}));
    assert_eq!(faults(&profile.unwrap(), 0), [ProfileFault::Root]);
}

#[test]
fn only_whole_words_are_kept_for_copy_offload() {
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
fn a_volume_may_be_mounted_where_no_file_of_ours_is() {
    let told = |path: &str| {
        told(|it| {
            it["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": path}]);
        })
    };
    for path in ["/data", "/nnfx", "/etc/mpich", "/etc", "/home/nnf", "/etc/mpi/../other"] {
        assert_eq!(told(path), [""; 0], "{path}");
    }
    for path in
        ["/nnf", "/nnf/", "//nnf/config", "/./nnf", "/etc/passwd", "/etc/group", "/x/../nnf"]
    {
        let told = told(path);
        assert!(
            told.len() == 1 && told[0].contains("is kept for Warren's own files"),
            "{path}: {told:?}"
        );
    }
}
