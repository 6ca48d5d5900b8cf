//! Copies by MPI: the containers of a copy between two Lustre file systems, its status, and its end.

mod ends;

use api::names::{annotation, movement};
use serde_json::{Value, json};

use super::{directives, go_to};
use crate::{
    containers::{self, on_rabbits},
    site::Site,
};

const LUSTRE: &str = "#DW jobdw type=lustre capacity=20GB name=scratch";
const IN: &str = "#DW copy_in source=/lus/global/in destination=$DW_JOB_scratch/in";
const MORE: &str = "#DW copy_in source=/lus/global/more/ destination=$DW_JOB_scratch";
/// The default command of the Go data movement, without its call of ulimit.
const COMMAND: &str = "mpirun --allow-run-as-root --hostfile $HOSTFILE dcp --progress 1 --uid $UID --gid $GID $SRC $DEST";

/// Adds a default profile that copies by MPI, and the global Lustre /lus/global.
fn with_mpi(mut site: Site) -> Site {
    site.add_global_lustre();
    site.edit("NnfDataMovementProfile", "nnf-system", "default", |profile| {
        let data = &mut profile["data"];
        data["image"] = json!("registry.example/dcp:1");
        data["command"] = json!(COMMAND);
        data["slots"] = json!(8);
        data["maxSlots"] = json!(4);
    });
    site.settle();
    site
}

/// Returns a site whose rabbits' agents run containers.
fn site() -> Site {
    with_mpi(on_rabbits::site())
}

/// Brings a workflow, whose first directive is [`LUSTRE`], to the end of Setup. Both rabbits have an object target.
fn set_up(site: &mut Site, lines: &[&str]) {
    site.create("w", &directives(lines));
    site.settle();
    assert!(site.is_ready("w", "Proposal"), "{:?}", site.status_of("w"));
    site.fill_computes("w", &["c1", "d1"]);
    site.fill_servers("w", &[("mgtmdt", &[("r", 1)]), ("ost", &[("r", 1), ("s", 1)])]);
    go_to(site, "Setup");
}

/// Returns a site with a workflow that runs one copy_in.
fn started(lines: &[&str]) -> Site {
    let mut site = site();
    set_up(&mut site, lines);
    site.request_state("w", "DataIn");
    site.settle();
    site
}

/// Returns rabbit and name of all containers.
fn names(site: &Site) -> Vec<String> {
    site.names("NodeContainers")
}

fn launcher(copy: &str) -> String {
    format!("default.w-{copy}-launcher")
}

/// Writes a status into the containers of this host, as their agent does.
fn set(site: &mut Site, rabbit: &str, host: &str, status: &Value) {
    site.edit("NodeContainers", rabbit, host, |object| {
        object["status"].as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
    });
    site.settle();
}

/// Writes a state into both workers of a copy.
fn set_workers(site: &mut Site, copy: &str, state: &str) {
    for (index, rabbit) in ["r", "s"].iter().enumerate() {
        let host = format!("default.w-{copy}-worker-{index}");
        set(site, rabbit, &host, &json!({"state": state}));
    }
}

/// Starts the workers and the launcher of a copy.
fn run(site: &mut Site, copy: &str) {
    set_workers(site, copy, "Ready");
    set(site, "r", &launcher(copy), &json!({"state": "Ready"}));
}

/// Ends the launcher of a copy with this status, and then its workers, which the engine stops.
fn end(site: &mut Site, copy: &str, status: &Value) {
    set(site, "r", &launcher(copy), status);
    let worker = site.get("NodeContainers", "s", &format!("default.w-{copy}-worker-1"));
    assert_eq!(worker["spec"]["suspend"], true, "the engine stops the workers");
    set_workers(site, copy, "Suspended");
}

fn log(text: &str) -> Value {
    json!([{"attempt": 1, "container": "copy", "text": text}])
}

/// The end of dcp's log.
const ENDED: &str = "Copied 18.626 GiB (100%) in 171.434 secs (111.259 MiB/s) done\nSeconds: 171.458\nItems: 3\n\
    Directories: 1\nFiles: 1\nLinks: 1\nData: 18.626 GiB (20000000000 bytes)\nRate: 111.243 MiB/s (x)\n";

fn succeeded() -> Value {
    json!({"state": "Succeeded", "logs": log(ENDED)})
}

#[test]
fn a_launcher_and_workers_on_all_rabbits_of_the_lustre_run_the_profiles_command() {
    let mut site = started(&[LUSTRE, IN]);
    let workers = ["r/default.w-copy1-worker-0", "s/default.w-copy1-worker-1"];
    assert_eq!(names(&site), workers, "{}", site.message("w"));
    let object = site.get("NnfDataMovement", "r", "w-1-0");
    assert_eq!(object["metadata"]["labels"][movement::MPI_RUN], "w-copy1");
    assert_eq!(object["status"]["state"], "Starting");
    set_workers(&mut site, "copy1", "Ready");
    let root = format!("/mnt/nnf/{}-0", site.workflow("w")["metadata"]["uid"].as_str().unwrap());
    let destination = format!("{root}/in");
    let spec = &site.get("NodeContainers", "r", &launcher("copy1"))["spec"];
    assert_eq!((&spec["userID"], &spec["groupID"]), (&json!(1001), &json!(1002)));
    assert_eq!(spec["storages"], json!([root]));
    assert_eq!(spec["globalLustre"], json!(["/lus/global"]));
    let container = &spec["containers"][0];
    assert_eq!(container["image"], "registry.example/dcp:1");
    let words = [
        "mpirun",
        "--hostfile",
        "/etc/mpi/hostfile",
        "dcp",
        "--progress",
        "1",
        "--uid",
        "1001",
        "--gid",
        "1002",
        "/lus/global/in",
        &destination,
    ];
    assert_eq!(container["command"], json!(words));
    let first = ["/nnf/bin/podhelper", "make-directory", "/lus/global/in", &destination];
    assert_eq!(spec["initContainers"][0]["command"], json!(first));
    let hosts = &site.get("ConfigMap", "default", "w-1-a1")["data"]["hostfile"];
    let host =
        |index| format!("w-copy1-worker-{index}.w-copy1.default.svc.cluster.local slots=4\n");
    assert_eq!(*hosts, host(0) + &host(1), "maxSlots limits slots");
    assert_eq!(site.names("Secret").len(), 1);
}

#[test]
fn the_status_has_the_progress_in_the_launchers_log_and_the_statistics_at_its_end() {
    let mut site = started(&[LUSTRE, IN]);
    run(&mut site, "copy1");
    let movement = |site: &Site| site.get("NnfDataMovement", "r", "w-1-0")["status"].clone();
    assert_eq!(movement(&site)["state"], "Running");
    assert_eq!(movement(&site)["commandStatus"]["command"], COMMAND);
    let asked = |site: &Site| {
        let object = site.get("NodeContainers", "r", &launcher("copy1"));
        object["metadata"]["annotations"][annotation::LOGS_ASKED].clone()
    };
    let first = asked(&site);
    assert!(first.is_string(), "the engine asks for the log of a running launcher");
    let line = "Copied 1.000 GiB (63%) in 1.001 secs (4.174 GiB/s) 9 secs left ...";
    let answer = json!({"logsAnswered": first, "logs": log(&format!("Walked 2 items\n{line}\n"))});
    set(&mut site, "r", &launcher("copy1"), &answer);
    let progress = &movement(&site)["commandStatus"];
    assert_eq!((&progress["progress"], &progress["lastMessage"]), (&json!(63), &json!(line)));
    assert!(site.message("w").contains("copies on r: 63 %, 0 of 1 ended"), "{}", site.message("w"));
    assert_eq!(asked(&site), first, "the engine asks again only after progressIntervalSeconds");
    let next = site.replan_time("w").expect("the engine plans the next request");
    let answered = first.as_str().unwrap().parse::<k8s_openapi::jiff::Timestamp>().unwrap();
    assert_eq!(next.duration_since(answered).as_secs(), 5);
    site.pass_time(5);
    site.settle();
    assert_ne!(asked(&site), first);
    set(&mut site, "r", &launcher("copy1"), &succeeded());
    assert_eq!(movement(&site)["state"], "Running", "the workers have not ended");
    set_workers(&mut site, "copy1", "Suspended");
    let status = movement(&site);
    assert_eq!((&status["state"], &status["status"]), (&json!("Finished"), &json!("Success")));
    let progress = &status["commandStatus"];
    for (field, value) in [
        ("progress", json!(100)),
        ("seconds", json!("171.458")),
        ("items", json!(3)),
        ("links", json!(1)),
        ("data", json!("18.626 GiB")),
        ("rate", json!("111.243 MiB/s")),
        ("bytes", json!(20_000_000_000_i64)),
    ] {
        assert_eq!(progress[field], value, "{field}");
    }
    assert!(site.is_ready("w", "DataIn"), "{:?}", site.status_of("w"));
    assert_eq!(
        names(&site),
        Vec::<String>::new(),
        "the containers of a copy that succeeded are removed"
    );
    for state in ["PreRun", "PostRun", "DataOut", "Teardown"] {
        go_to(&mut site, state);
    }
    site.remove("w");
}

#[test]
fn two_copies_and_the_jobs_own_mpi_have_different_names_and_ports() {
    let mut site = site();
    containers::mpi::with_profile(&mut site);
    let own = "#DW container name=beside profile=app DW_JOB_data=scratch";
    set_up(&mut site, &[LUSTRE, IN, MORE, own]);
    site.request_state("w", "DataIn");
    site.settle();
    assert_eq!(names(&site).len(), 4, "{:?}", names(&site));
    run(&mut site, "copy1");
    run(&mut site, "copy2");
    let port = |site: &Site, copy: &str| {
        site.get("NodeContainers", "r", &launcher(copy))["spec"]["network"]["port"].clone()
    };
    assert_ne!(port(&site, "copy1"), port(&site, "copy2"));
    let source = &site.get("NodeContainers", "r", &launcher("copy2"))["spec"]["containers"][0]["command"]
        [10];
    assert_eq!(*source, "/lus/global/more/", "a trailing slash is kept");
    end(&mut site, "copy2", &succeeded());
    assert_eq!(names(&site).len(), 3, "only the containers of the other copy are left");
    assert!(!site.status_of("w").1);
    end(&mut site, "copy1", &succeeded());
    assert!(site.is_ready("w", "DataIn"), "{:?}", site.status_of("w"));
    site.pass_time(60);
    site.request_state("w", "PreRun");
    site.settle();
    assert_eq!(
        names(&site),
        ["r/default.w-worker-0", "s/default.w-worker-1"],
        "{}",
        site.message("w")
    );
    go_to(&mut site, "Teardown");
    site.remove("w");
}

#[test]
fn kubernetes_runs_a_copy_with_a_service_of_its_own_and_the_rabbits_directories() {
    let mut site = with_mpi(containers::site());
    set_up(&mut site, &[LUSTRE, IN]);
    site.request_state("w", "DataIn");
    site.settle();
    assert_eq!(
        site.names("Job"),
        ["default/w-copy1-worker-0", "default/w-copy1-worker-1"],
        "{}",
        site.message("w")
    );
    assert_eq!(
        (site.names("Service"), site.names("NetworkPolicy")),
        (vec!["default/w-copy1".to_owned()], vec!["default/w-copy1".to_owned()])
    );
    let pod = &site.get("Job", "default", "w-copy1-worker-0")["spec"]["template"]["spec"];
    let paths: Vec<&Value> = pod["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|volume| &volume["hostPath"]["path"])
        .collect();
    assert!(paths.contains(&&json!("/lus/global")), "{paths:?}");
    site.set_all_job_status(&containers::running());
    assert_eq!(site.names("Job").len(), 3);
    site.set_all_job_status(&containers::running());
    let status = |site: &Site| site.get("NnfDataMovement", "r", "w-1-0")["status"].clone();
    assert_eq!(status(&site)["state"], "Running");
    assert!(
        status(&site)["commandStatus"]["progress"].is_null(),
        "the engine reads no logs of pods"
    );
    site.edit("Job", "default", "w-copy1-launcher", |job| job["status"] = containers::complete());
    site.settle();
    for index in 0..2 {
        let stopped = json!({"active": 0, "ready": 0, "terminating": 0, "conditions": [
            {"type": "Suspended", "status": "True", "reason": "JobSuspended"}]});
        site.edit("Job", "default", &format!("w-copy1-worker-{index}"), |job| {
            job["status"] = stopped;
        });
    }
    site.settle();
    assert_eq!(status(&site)["status"], "Success");
    assert!(site.is_ready("w", "DataIn"), "{:?}", site.status_of("w"));
    assert!(site.names("Job").is_empty() && site.names("Service").is_empty());
    go_to(&mut site, "Teardown");
    site.remove("w");
}

#[test]
fn a_persistent_lustre_is_mounted_on_its_rabbits_while_mpi_copies_it_out() {
    let mut site = site();
    site.keep("lustre", "kept", &["c1", "d1"]);
    let out = "#DW copy_out source=$DW_PERSISTENT_kept/results destination=/lus/global/results";
    site.request_setup("w", &directives(&["#DW persistentdw name=kept", out]), &["c1"]);
    for state in ["DataIn", "PreRun", "PostRun"] {
        go_to(&mut site, state);
    }
    site.request_state("w", "DataOut");
    site.settle();
    let workers = names(&site);
    assert!(!workers.is_empty(), "{}", site.message("w"));
    for worker in &workers {
        let (rabbit, host) = worker.split_once('/').unwrap();
        let mount = site.get("ClientMount", rabbit, "default-w-0-servers");
        assert_eq!(mount["status"]["mounts"][0]["state"], "mounted", "{worker}");
        set(&mut site, rabbit, host, &json!({"state": "Ready"}));
    }
    let (rabbit, _) = workers[0].split_once('/').unwrap();
    set(&mut site, rabbit, &launcher("copy1"), &json!({"state": "Ready"}));
    // `check_containers` panics if a change unmounts the storage under the containers.
    go_to(&mut site, "Teardown");
    assert_eq!(names(&site), Vec::<String>::new());
}
