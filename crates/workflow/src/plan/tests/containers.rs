//! Containers beside a job's storage: refused directives, ports, and what the start of a container waits for.

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

/// Fails unless Proposal refuses a lone container directive with this message.
#[track_caller]
fn refuses(site: Objects, message: &str) {
    let expected = format!("w: Proposal Error: DW Directive 0: User error: {message}");
    site.request("w", 1001, &[ALONE]).plans(&["create Computes default/w", &expected]);
}

#[test]
fn containers_are_refused_where_they_cannot_run() {
    let with = |edit: fn(&mut Containers)| {
        let mut site = site();
        site.settings.containers.as_mut().map(edit);
        site
    };
    let mut off = site();
    off.settings.containers = None;
    refuses(
        off,
        "command container: this site runs no containers; remove the directive, or ask the administrator to start the coordinator with --container-namespace",
    );
    refuses(
        with(|containers| containers.namespace = Some("jobs".to_owned())),
        "command container: containers run in the Kubernetes namespace jobs only, and this workflow is in default",
    );
    refuses(
        with_mpi(with(|containers| containers.podhelper_image = None)),
        "argument profile=app: data.mpiSpec needs podhelper, which is not configured here; name a profile with data.spec, or ask the administrator to start the coordinator with --podhelper-image",
    );
}

#[test]
fn an_unsupported_profile_is_refused() {
    let with = |data: &Value| site().edit(PROFILE, &json!({"data": data}));
    let pod = |part: &Value| json!({"spec": part});
    refuses(
        site().without(PROFILE),
        "argument profile=app: no such NnfContainerProfile; the site has none",
    );
    refuses(
        with(&json!({"userID": 7})),
        "argument profile=app: this profile is only for user 7, and the workflow's user is 1001; name another profile",
    );
    refuses(
        with(&json!({"groupID": 8})),
        "argument profile=app: this profile is only for group 8, and the workflow's group is 1002; name another profile",
    );
    refuses(
        with(&json!({"storages": [{"name": "DW_JOB_need", "optional": false}]})),
        "argument DW_JOB_need is missing, which profile app needs; add DW_JOB_need=NAME",
    );
    refuses(
        with(&json!({"spec": null})),
        "argument profile=app: data has neither spec nor mpiSpec: ask the administrator to add one",
    );
    refuses(
        with(&pod(&json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}))),
        r#"argument profile=app: data.spec: volume "v" is a hostPath: containers see no more of their rabbit than the storage that a directive names; ask the administrator to remove it"#,
    );
    refuses(
        with(&pod(&json!({"automountServiceAccountToken": true}))),
        "argument profile=app: data.spec: automountServiceAccountToken is true: containers of users get no token for the API; ask the administrator to remove it",
    );
}

#[test]
fn packages_are_refused_where_no_agent_fetches_them_and_invalid_packages_everywhere() {
    let with = |url: &str, namespace: Option<&str>| {
        let package = json!({"name": "data", "url": url, "sha256": "0".repeat(64), "size": 1});
        let mut site = site().edit(PROFILE, &json!({"data": {"packages": [package]}}));
        if let Some(containers) = &mut site.settings.containers {
            (containers.packages, containers.namespace) = (false, namespace.map(str::to_owned));
        }
        site
    };
    refuses(
        with("ftp://server/data", Some("default")),
        r#"argument profile=app: data.packages[0].url is "ftp://server/data", and must begin with https:// or http://, or be the absolute path of a file that every rabbit sees: ask the administrator to correct it"#,
    );
    refuses(
        with("ftp://server/data", None),
        r#"argument profile=app: data.packages[0].url is "ftp://server/data", and must begin with https:// or http://, or be the absolute path of a file that every rabbit sees: ask the administrator to correct it"#,
    );
    refuses(
        with("http://server/data", Some("default")),
        "argument profile=app: this site does not support data.packages: ask the administrator to remove it, or to start the coordinator with --container-packages and the rabbits' agents with --package-dir",
    );
    with("http://server/data", None).propose(&[ALONE]).is_done();
}

#[test]
fn an_argument_that_the_profile_does_not_admit_is_refused() {
    let small = "#DW jobdw type=xfs capacity=1GiB name=small";
    let line = |rest: &str| format!("{ALONE} {rest}");
    let beside = |rest: &str| site().request("w", 1001, &[GFS2, small, &line(rest)]);
    beside("DW_JOB_data=other").reports("w: Proposal Error: DW Directive 2: User error: argument DW_JOB_data=other: this workflow has no directive jobdw name=other; add this directive, or correct the name");
    beside("DW_JOB_more=scratch").reports("w: Proposal Error: DW Directive 2: User error: argument DW_JOB_more=scratch: profile app has no such storage; it has DW_JOB_data or DW_PERSISTENT_kept or DW_GLOBAL_lus");
    beside("DW_JOB_data=small").reports("w: Proposal Error: DW Directive 2: User error: argument DW_JOB_data=small: unsupported container filesystem xfs; use lustre, gfs2 or raw");
    beside("DW_PERSISTENT_kept=kept").reports("w: Proposal Error: DW Directive 2: User error: argument DW_PERSISTENT_kept=kept: this workflow has no directive persistentdw name=kept; add this directive, or correct the name");
    let kept = site().keep("xfs", "kept", &["c1"]);
    let lines = ["#DW persistentdw name=kept", &line("DW_PERSISTENT_kept=kept")];
    kept.request("w", 1001, &lines).reports("w: Proposal Error: DW Directive 1: User error: argument DW_PERSISTENT_kept=kept: unsupported container filesystem xfs; use lustre, gfs2 or raw");
}

#[test]
fn a_name_that_no_pod_can_have_is_refused() {
    site().request("w.x", 1001, &[ALONE]).reports(r#"w.x: Proposal Error: DW Directive 0: User error: workflow "w.x" cannot run containers: its Service gets the workflow's name, which must begin with a letter and have only a-z, 0-9 and -, at most 63 characters; give the workflow such a name"#);
    with_mpi(site()).request(&"w".repeat(55), 1001, &[ALONE]).reports("wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww: Proposal Error: DW Directive 0: User error: workflow wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww cannot run MPI: wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww-launcher has 64 characters, and at most 63 are possible; give the workflow a shorter name");
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
    site.settle().is_done().reach("PostRun").plans(&[
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

const POLLY: &str = "LustreFileSystem lus/polly";
const USE_POLLY: &str = "#DW container name=beside profile=app DW_GLOBAL_lus=/lus/polly";

fn polly(root: &str, mode: &str) -> Value {
    json!({"spec": {"name": "polly", "mgsNids": "10.0.0.9@tcp", "mountRoot": root,
        "namespaces": {"default": {"modes": [mode]}}}})
}

#[test]
fn a_wrong_path_or_access_mode_of_a_global_lustre_is_refused_with_the_remedy() {
    let site = || site().put(POLLY, polly("/lus/polly", "ReadWriteMany"));
    let refused = |site: Objects, path: &str| {
        let line = USE_POLLY.replace("/lus/polly", path);
        site.request("w", 1001, &[&line])
    };
    let read_only =
        json!({"data": {"storages": [{"name": "DW_GLOBAL_lus", "pvcMode": "ReadOnlyMany"}]}});
    refused(site(), "/lus/pollyanna").reports("w: Proposal Error: DW Directive 0: User error: argument DW_GLOBAL_lus=/lus/pollyanna: no global Lustre is mounted there; write a path beneath /lus/polly");
    refused(site(), "/home").reports("w: Proposal Error: DW Directive 0: User error: argument DW_GLOBAL_lus=/home: no global Lustre is mounted there; write a path beneath /lus/polly");
    refused(site().without(POLLY), "/lus/polly").reports("w: Proposal Error: DW Directive 0: User error: argument DW_GLOBAL_lus=/lus/polly: no global Lustre is mounted there; the site has none");
    refused(site().edit(PROFILE, &read_only), "/lus/polly").reports("w: Proposal Error: DW Directive 0: User error: argument DW_GLOBAL_lus=/lus/polly: LustreFileSystem lus/polly does not give the namespace default the mode ReadOnlyMany; ask the administrator to add it to spec.namespaces.default.modes, or to name another pvcMode for DW_GLOBAL_lus in the profile");
}

/// An engine that is upgraded without the new ClusterRole has no right to list LustreFileSystems.
#[test]
fn a_workflow_that_names_a_global_lustre_waits_until_it_can_be_listed() {
    let mut site = site().put(POLLY, polly("/lus/polly", "ReadWriteMany"));
    site.unlisted.insert("LustreFileSystem");
    let mut site = site.request("w", 1001, &[USE_POLLY]).plans(&[
        "create Computes default/w",
        "w: Proposal TransientCondition: DW Directive 0: Internal error: argument DW_GLOBAL_lus=/lus/polly: the global Lustre file systems are not known, because LustreFileSystems cannot be listed; the coordinator's log says why, and the workflow continues once they are listed",
    ]);
    site.unlisted.clear();
    site.settle().is_done();
}

#[test]
fn no_container_starts_while_its_global_lustre_is_missing() {
    let there = polly("/lus/polly", "ReadWriteMany");
    for site in [site(), super::on_rabbits::site()] {
        let site = site.put(POLLY, there.clone()).propose(&[USE_POLLY]).computes(&["c1", "d1"]);
        let site = site.without(POLLY).reach("PreRun").settle().forget().plans(&[
            "w: PreRun TransientCondition: DW Directive 0: User error: argument DW_GLOBAL_lus=/lus/polly: no global Lustre is mounted there any more; ask the administrator to create its LustreFileSystem again",
        ]);
        let site = site.then_put(POLLY, there.clone()).settle();
        assert_eq!(site.names("Job").len() + site.names("NodeContainers").len(), 2);
    }
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
