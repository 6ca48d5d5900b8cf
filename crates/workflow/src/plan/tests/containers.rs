//! Containers beside a job's storage: ports, and what the start of a container waits for.

use serde_json::{Value, json};

use super::{GFS2, Objects, R, RAW};
use crate::objects::site::Containers;

pub(super) const BESIDE: &str = "#DW container name=beside profile=app DW_JOB_data=scratch";
pub(super) const PROFILE: &str = "NnfContainerProfile nnf-system/app";
pub(super) const ALONE: &str = "#DW container name=beside profile=app";
const SYSTEM: &str = "SystemConfiguration default/default";

/// Returns a site where Kubernetes runs containers, with the profile `app` and three ports.
pub(super) fn site() -> Objects {
    let mut site = Objects::site();
    site.settings.containers = Some(Containers {
        namespace: Some("default".to_owned()),
        cluster_domain: "cluster.local".to_owned(),
        podhelper_image: Some("registry.example/podhelper:1".to_owned()),
        packages: true,
    });
    site.edit(SYSTEM, &json!({"spec": {"ports": ["5000-5002"]}})).put(PROFILE, profile())
}

fn profile() -> Value {
    json!({"data": {
        "storages": [{"name": "DW_JOB_data", "optional": true}, {"name": "DW_PERSISTENT_kept", "optional": true},
            {"name": "DW_GLOBAL_lus", "optional": true}],
        "preRunTimeoutSeconds": 60, "postRunTimeoutSeconds": 90, "retryLimit": 2, "numPorts": 1,
        "spec": {"containers": [{"name": "app", "image": "registry.example/app:1"}]},
    }})
}

/// Turns the profile `app` into a profile for MPI.
pub(super) fn with_mpi(site: Objects) -> Objects {
    let pod = |container: &Value| json!({"containers": [container]});
    let image = "registry.example/app:1";
    let launcher = json!({"name": "app", "image": image, "command": ["mpirun", "hostname"]});
    let worker = json!({"name": "worker", "image": image});
    let mpi = json!({"launcher": pod(&launcher), "worker": pod(&worker), "slotsPerWorker": 2});
    site.edit(PROFILE, &json!({"data": {"spec": null, "mpiSpec": mpi}}))
}

/// Returns workflow `w` with storage and a container on both rabbits, at the beginning of a state.
pub(super) fn at(site: Objects, line: &str, state: &str) -> Objects {
    site.propose(&[line, BESIDE]).computes(&["c1", "c2", "d1"]).reach(state)
}

#[test]
fn prerun_creates_files_and_network_first_and_then_the_containers() {
    let site = at(site(), GFS2, "PreRun");
    site.plans(&[
        "create ClientMount r/default-w-0-servers: mounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for c1, r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0/node-1 for c2",
        "create ClientMount s/default-w-0-servers: mounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0/node-0 for d1",
        "change NnfNodeBlockStorage r/default-w-0-gfs2-0: 2214592512 for r c1 c2",
        "change NnfNodeBlockStorage s/default-w-0-gfs2-0: 1107296256 for s d1",
        "create NnfPortManager r/nnf-port-manager",
        "create NnfPortManager s/nnf-port-manager",
        "w: PreRun DriverWait: DW Directive 0: pending mount on c1 and others",
    ]).step().plans(&[
        "create ClientMount c1/default-w-0-computes: mounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "create ClientMount c2/default-w-0-computes: mounted r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0",
        "create ClientMount d1/default-w-0-computes: mounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "write the status of NnfPortManager r/nnf-port-manager",
        "write the status of NnfPortManager s/nnf-port-manager",
        "w: PreRun DriverWait: DW Directive 0: pending mount on c1, c2, d1",
    ]).step().plans(&[
        "create Service default/w",
        "create NetworkPolicy default/w",
        "create ConfigMap default/w-1",
        "w: PreRun DriverWait",
    ]).step().plans(&[
        "create Job default/w-r: deadline 60",
        "create Job default/w-s: deadline 60",
    ]);
}

#[test]
fn no_container_starts_before_its_rabbit_has_mounted_all_storage() {
    let site = at(site(), GFS2, "PreRun").dead("s").settle().forget();
    assert!(site.names("Job").is_empty());
    site.plans(&["w: PreRun DriverWait: DW Directive 0: pending mount on d1, s"]);
}

#[test]
fn prerun_fails_for_a_compute_without_a_rabbit() {
    let far = json!({"spec": {"externalComputeNodes": [{"name": "far"}]}});
    let site = site().edit(SYSTEM, &far).propose(&[ALONE]).reach("PreRun").plans(&[
        "w: PreRun Error: DW Directive 0: WLM error: Computes names no compute: containers run on the rabbits of the job's computes, so fill Computes",
    ]);
    let computes = "Computes default/w";
    site.then(computes, &json!({"data": [{"name": "far"}]})).plans(&[
        "w: PreRun Error: DW Directive 0: WLM error: Computes names far, which no rabbit serves: containers run on rabbits, so name computes that SystemConfiguration default/default lists under one",
    ]);
}

/// The job has no storage on `s`, so Setup has not checked that `s` is enabled.
#[test]
fn a_disabled_rabbit_gets_no_containers_and_keeps_those_that_it_has() {
    let s = "Storage default/s";
    for site in [site(), with_mpi(site())] {
        let site = site.edit(s, &json!({"spec": {"state": "Disabled"}})).settle();
        let site = site.propose(&[ALONE]).computes(&["c1", "d1"]).reach("PreRun").settle().forget();
        assert!(site.names("Job").is_empty());
        let site = site.plans(&[
            "w: PreRun TransientCondition: DW Directive 0: Internal error: s is disabled by an administrator (Storage default/s, spec.state): enable it, or place the job elsewhere",
        ]).then(s, &json!({"spec": {"state": "Enabled"}})).settle();
        assert_eq!(site.names("Job").len(), 2);
        site.edit(R, &json!({"spec": {"state": "Disabled"}}))
            .settle()
            .forget()
            .plans(&["w: PreRun DriverWait: DW Directive 0: pending containers on r, s"]);
    }
}

#[test]
fn the_start_deadline_is_removed_when_all_containers_are_ready() {
    let site = at(site(), GFS2, "PreRun").settle();
    let site = site
        .edit("Job default/w-r", &running())
        .plans(&["w: PreRun DriverWait: DW Directive 1: pending containers on s"]);
    let site = site
        .edit_all("Job", &running())
        .plans(&["change Job default/w-r: deadline null", "change Job default/w-s: deadline null"]);
    site.settle().completes().reach("PostRun").plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted r/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change ClientMount c2/default-w-0-computes: unmounted r/default-w-0-gfs2-0[1] at /mnt/nnf/w-0",
        "change ClientMount d1/default-w-0-computes: unmounted s/default-w-0-gfs2-0[0] at /mnt/nnf/w-0",
        "change Job default/w-r: deadline 100",
        "change Job default/w-s: deadline 100",
        "w: PostRun DriverWait: DW Directive 0: pending unmount on c1, c2, d1",
    ]);
}

/// The status of a running Job.
pub(super) fn running() -> Value {
    json!({"status": {"active": 1, "ready": 1, "startTime": "2027-01-15T08:00:00Z"}})
}

/// Returns the ports that the containers of a workflow got.
fn ports(site: &Objects, workflow: &str) -> Value {
    let env = &site.get(&format!("Workflow default/{workflow}"))["status"]["env"];
    env["NNF_CONTAINER_PORTS"].clone()
}

#[test]
fn workflows_on_one_rabbit_get_different_ports() {
    let v = site().with("v", ALONE, &[], "DataIn");
    let names = json!({"data": [{"name": "c1"}]});
    let v = v.edit("Computes default/v", &names).bring("v", "PreRun").settle();
    let w = v.clone().propose(&[ALONE]).computes(&["c1"]).reach("PreRun").settle();
    assert_eq!([ports(&w, "v"), ports(&w, "w")], [json!("5000"), json!("5001")]);
    let hidden = v.unreadable("Workflow default/v");
    let w = hidden.propose(&[ALONE]).computes(&["c1"]).reach("PreRun").settle();
    assert_eq!(ports(&w, "w"), "5001");
}

#[test]
fn a_workflow_waits_until_a_port_has_cooled_down() {
    let one_port = json!({"spec": {"ports": [5000], "portsCooldownInSeconds": 10_000}});
    let v = site().edit(SYSTEM, &one_port).with("v", ALONE, &["c1"], "DataIn").bring("v", "PreRun");
    let gone = v.settle().edit_all("Job", &running()).settle();
    let over = json!({"spec": {"desiredState": "Teardown"}});
    let gone = gone.edit("Workflow default/v", &over).settle();
    let site = gone.propose(&[ALONE]).computes(&["c1"]).reach("PreRun").plans(&[
        "w: PreRun DriverWait: DW Directive 0: pending 1 ports that are free on all rabbits of this job at once; there are only 0 such ports now",
    ]);
    assert!(site.plan().replan_soon, "no watch reports that a port is free again");
    assert_eq!(ports(&site.after(10_000).settle(), "w"), "5000");
}

#[test]
fn a_site_without_valid_ports_is_reported() {
    let with = |ports: &Value| site().edit(SYSTEM, &json!({"spec": {"ports": ports}}));
    let start = |site: Objects| site.propose(&[ALONE]).computes(&["c1"]).reach("PreRun");
    start(with(&json!([]))).plans(&[
        "w: PreRun Error: DW Directive 0: User error: SystemConfiguration default/default lists 0 ports, and the profile requests 1: ask the administrator to add ports",
    ]);
    start(with(&json!(["http"]))).plans(&[
        r#"w: PreRun Error: DW Directive 0: User error: SystemConfiguration default/default, ports: "http" is not a port; ask the administrator to write a number or START-END, from 1 to 65535"#,
    ]);
}

#[test]
fn raw_storage_in_pods_has_volumes_that_exist_from_before_the_first_pod_until_after_the_last() {
    let site = at(site(), RAW, "PreRun")
        .step()
        .step()
        .plans(&[
            "create Service default/w",
            "create NetworkPolicy default/w",
            "create ConfigMap default/w-1",
            "w: PreRun DriverWait",
        ])
        .settle();
    let held = json!({"metadata": {"finalizers": ["foregroundDeletion"]}});
    let site = site.edit_all("Job", &running()).settle().edit_all("Job", &held);
    let site = site
        .reach_by_force("Teardown")
        .settle()
        .forget()
        .plans(&["w: Teardown DriverWait: DW Directive 0: pending end of containers"]);
    site.edit_all("Job", &json!({"metadata": {"finalizers": null}})).collected().plans(&[
        "delete PersistentVolumeClaim default/w-0-r-0",
        "delete PersistentVolumeClaim default/w-0-r-1",
        "delete PersistentVolumeClaim default/w-0-s-0",
        "delete PersistentVolume w-0-r-0",
        "delete PersistentVolume w-0-r-1",
        "delete PersistentVolume w-0-s-0",
        "w: Teardown DriverWait: DW Directive 0: pending end of containers",
    ]);
}
