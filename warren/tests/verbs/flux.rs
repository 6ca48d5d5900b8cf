use std::{fs, os::unix::fs::MetadataExt};

use serde_json::{Value, json};

use crate::{
    rabbits::{storage, write_status},
    standalone_coordinator::{StandaloneCoordinator, warren},
};

const GIB: i64 = 1 << 30;

fn system(nodes: &Value) -> Value {
    json!({"apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "SystemConfiguration",
        "metadata": {"name": "default", "namespace": "default"},
        "spec": {"portsCooldownInSeconds": 60, "storageNodes": nodes}})
}

fn node(rabbit: &str, computes: &[&str]) -> Value {
    let computes: Vec<Value> = computes
        .iter()
        .enumerate()
        .map(|(index, name)| json!({"name": name, "index": index}))
        .collect();
    json!({"type": "Rabbit", "name": rabbit, "computesAccess": computes})
}

fn servers(name: &str, rabbit: &str, bytes: i64) -> Value {
    json!({"apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Servers",
        "metadata": {"name": name, "namespace": "default", "labels": {
            "dataworkflowservices.github.io/workflow.name": name,
            "dataworkflowservices.github.io/workflow.namespace": "default"}},
        "spec": {"allocationSets": [{"label": "xfs", "allocationSize": bytes,
            "storage": [{"name": rabbit, "allocationCount": 2}]}]}})
}

fn status(free: i64, drives: &[i64], computes: &[&str]) -> Value {
    let computes: Vec<Value> =
        computes.iter().map(|name| json!({"name": name, "status": "Ready"})).collect();
    let drives: Vec<Value> = drives
        .iter()
        .map(|bytes| json!({"capacity": bytes, "status": "Ready", "slot": "1"}))
        .collect();
    json!({"status": "Ready", "capacity": free, "type": "NVMe", "rebootRequired": false,
        "devices": drives, "access": {"protocol": "PCIe", "servers": [], "computes": computes}})
}

/// Returns a coordinator with r1, whose drives have 10 GiB, and r2, without drives and with 4 GiB. A job of Flux has
/// storage on both, and another program 2 GiB on r2.
fn with_rabbits() -> StandaloneCoordinator {
    let here = StandaloneCoordinator::start();
    let (first, second) =
        (status(GIB, &[4 * GIB, 6 * GIB], &["n1"]), status(4 * GIB, &[], &["n3"]));
    let job = json!({"apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Workflow",
        "metadata": {"name": "fluxjob-77", "namespace": "default"},
        "spec": {"desiredState": "Proposal", "dwDirectives": [], "jobID": "f2L", "userID": 1, "groupID": 1, "wlmID": "flux"}});
    let objects = [
        system(&json!([node("r2", &["n3"]), node("r1", &["n2", "n1"])])),
        storage("r1", &first),
        storage("r2", &second),
        servers("fluxjob-77", "r1", GIB),
        servers("other", "r2", GIB),
        job,
    ];
    let file = here.file("rabbits.yaml", &objects);
    here.output(&["apply", "-f", &file]);
    for (rabbit, status) in [("r1", first), ("r2", second)] {
        write_status::<api::Storage>(&here, "default", rabbit, &status);
    }
    here
}

fn expected() -> Value {
    json!({"computes": {"n1": "r1", "n2": "r1", "n3": "r2"}, "rabbits": {
        "r1": {"capacity": 10 * GIB, "hostlist": "n[1-2]"}, "r2": {"capacity": 2 * GIB, "hostlist": "n3"}}})
}

fn change_system(here: &StandaloneCoordinator, nodes: &Value) {
    let file = here.file("system.yaml", &[system(nodes)]);
    here.output(&["apply", "-f", &file]);
}

/// Runs a command that must exit with 1, and returns its standard output.
fn stale(here: &StandaloneCoordinator, arguments: &[&str]) -> String {
    let assert = here.warren(arguments).assert().code(1);
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

#[test]
fn a_mapping_file_is_written_checked_and_written_anew() {
    let here = with_rabbits();
    assert_eq!(here.json(&["flux", "rabbitmapping"]), expected());
    let all = here.json(&["flux", "rabbitmapping", "--ignore-external-allocations"]);
    assert_eq!(all["rabbits"]["r2"]["capacity"], 4 * GIB);
    let file = here.path("mapping").display().to_string();
    here.warren(&["flux", "rabbitmapping", "-i2", "--output", &file]).assert().code(0);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("{\n  \"computes\": {\n    \"n1\": \"r1\","), "{text}");
    let check = ["flux", "rabbitmapping", "-i2", "--check", &file];
    assert_eq!(here.output(&check), format!("{file} is current\n"));

    change_system(&here, &json!([node("r2", &["n3", "n2"]), node("r1", &["n1"]), node("r3", &[])]));
    let said = stale(&here, &check);
    for part in [
        "rabbit r3 is in the cluster and not in the file",
        "compute n2 is under rabbit r1 in the file and under r2 now",
        &format!("to write it anew: warren flux rabbitmapping -i2 --output {file}"),
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), text, "a check changes nothing");
    let command = said.split_once("anew: warren ").unwrap().1.trim_end();
    let words: Vec<&str> = command.split(' ').collect();
    let again = here.warren(&words).assert().code(0);
    let notes = String::from_utf8_lossy(&again.get_output().stderr).into_owned();
    assert!(notes.contains("r3: no Storage has its computes"), "{notes}");
    here.warren(&check).assert().code(0);

    let json = here.raw_file("broken", b"{\"computes\": {}}");
    let said = stale(&here, &["flux", "rabbitmapping", "--check", &json, "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&said["current"], said["differences"].as_array().unwrap().len()),
        (&json!(false), 1)
    );
    assert!(said["differences"][0].as_str().unwrap().contains("missing field `rabbits`"), "{said}");
}

#[test]
fn a_mapping_is_not_written_when_objects_contradict_each_other_or_are_absent() {
    let here = with_rabbits();
    let file = here.raw_file("mapping", b"old");
    change_system(&here, &json!([node("r1", &["n2"]), node("r2", &["n1", "n3"])]));
    let wrong = here.warren(&["flux", "rabbitmapping", "-o", &file]).assert().code(1);
    let text = String::from_utf8_lossy(&wrong.get_output().stderr).into_owned();
    assert!(text.contains("Storage r1 has the compute n1") && text.contains("under r2"), "{text}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    let empty = StandaloneCoordinator::start();
    let none = empty.warren(&["flux", "rabbitmapping"]).assert().code(1);
    let text = String::from_utf8_lossy(&none.get_output().stderr).into_owned();
    assert!(
        text.contains("SystemConfiguration default/default") && text.contains("apply"),
        "{text}"
    );
}

#[test]
fn rabbits_are_found_by_compute_job_and_file() {
    let here = with_rabbits();
    let mapping = here.raw_file("mapping", expected().to_string().as_bytes());
    for (arguments, answer) in [
        (&[][..], "r[1-2]"),
        (&["r1"], "n[1-2]"),
        (&["-c", "n[1-2]", "n3"], "r[1-2]"),
        (&["--computes", "n3"], "r2"),
        (&["-j", "77"], "r1"),
        (&["-c", "n3", "-j", "f2L"], "r[1-2]"),
        (&["--mapping", &mapping, "r2"], "n3"),
    ] {
        let all = [&["flux", "getrabbit"], arguments].concat();
        assert_eq!(here.output(&all), format!("{answer}\n"), "{arguments:?}");
    }
    assert_eq!(here.json(&["flux", "getrabbit", "r1", "--json"]), json!(["n1", "n2"]));
    for (arguments, code, message) in [
        (&["r1", "-c", "n1"][..], 1, "Both rabbits and computes or jobids"),
        (&["r9"], 1, "Could not find rabbit r9"),
        (&["-c", "n9"], 1, "Could not find compute n9"),
        (&["-j", "78"], 1, "Could not find job 78"),
        (&["-j", "x"], 2, "\"x\" is not an F58 job id"),
        (&["--mapping", "/nonexistent/mapping"], 1, "read /nonexistent/mapping"),
        (&["-c"], 2, "--computes"),
    ] {
        let all = [&["flux", "getrabbit"], arguments].concat();
        let assert = here.warren(&all).assert().code(code);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(text.contains(message), "{arguments:?}: {text}");
    }
}

/// R of an instance with the three computes.
fn r() -> Value {
    json!({"version": 1, "execution": {"R_lite": [{"rank": "0-2", "children": {"core": "0-1"}}],
        "starttime": 0, "expiration": 0, "nodelist": ["n[1-3]"]}})
}

#[test]
fn a_graph_is_written_checked_and_written_anew() {
    let here = with_rabbits();
    let file = here.path("R").display().to_string();
    let graph = ["flux", "jgf", "-c", "2", "--cluster-name", "c"];
    let write = [&graph[..], &["-o", &file]].concat();
    here.warren(&write).write_stdin(r().to_string()).assert().code(0);
    let written: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(written["execution"], r()["execution"]);
    let vertices = written["scheduling"]["graph"]["nodes"].as_array().unwrap();
    let sizes: Vec<&Value> = vertices.iter().map(|vertex| &vertex["metadata"]["size"]).collect();
    let sizes: Vec<i64> = sizes.into_iter().filter_map(Value::as_i64).collect();
    assert_eq!(sizes, [5, 5, 1, 1]);
    // The file itself says how many ssds and which cluster.
    let check = ["flux", "jgf", "--check", &file];
    assert_eq!(here.output(&check), format!("{file} is current\n"));

    change_system(&here, &json!([node("r2", &["n3", "n2"]), node("r1", &["n1"])]));
    let said = stale(&here, &check);
    assert!(said.contains("node n2 is under rabbit r1 in the file, rabbit r2 now"), "{said}");
    let command = said.split_once("anew: warren ").unwrap().1.trim_end();
    assert_eq!(command, format!("flux jgf --output {file} --resources {file}"));
    let inode = fs::metadata(&file).unwrap().ino();
    here.warren(&command.split(' ').collect::<Vec<_>>()).assert().code(0);
    here.warren(&check).assert().code(0);
    assert_ne!(fs::metadata(&file).unwrap().ino(), inode, "the file is replaced as a whole");

    let alone = here.path("graph").display().to_string();
    let only = [&graph[..], &["--only-sched", "-o", &alone]].concat();
    here.warren(&only).write_stdin(r().to_string()).assert().code(0);
    let check = [&graph[..], &["--check", &alone]].concat();
    here.warren(&check).write_stdin(r().to_string()).assert().code(0);
    let bare = here.raw_file("bare", r().to_string().as_bytes());
    assert!(stale(&here, &["flux", "jgf", "--check", &bare]).contains("has no graph of rabbits"));
}

/// Runs the program with the arguments of each recording of `flux dws2jgf`.
#[test]
fn the_program_takes_the_arguments_of_dws2jgf_and_writes_its_output() {
    let golden = include_str!("../../../crates/flux/tests/golden/dws2jgf.json");
    let golden: Value = serde_json::from_str(golden).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mapping").display().to_string();
    for case in golden["cases"].as_array().unwrap() {
        fs::write(&file, case["rabbitmapping"].to_string()).unwrap();
        let mut arguments = vec!["flux", "jgf"];
        arguments.extend(case["argv"].as_array().unwrap().iter().filter_map(Value::as_str));
        if let Some(exclude) = case["broker_config"]["resource"]["exclude"].as_str() {
            arguments.extend(["--exclude", exclude]);
        }
        arguments.push(&file);
        let assert = warren(&arguments).write_stdin(case["R"].to_string()).assert().code(0);
        let mut ours: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
        // The recording's host name is not this host's.
        if case["name"] == "chunks1-default-cluster-name" {
            let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
            let own = ours.to_string().replace(&format!("\"{}\"", cluster(&host)), "\"hetchy\"");
            let own = own.replace(&format!("/{}", cluster(&host)), "/hetchy");
            ours = serde_json::from_str(&own).unwrap();
        }
        if let Some(recorded) = case.get("stdout") {
            assert_eq!(&ours, recorded, "{}", case["name"]);
        }
    }
}

fn cluster(host: &str) -> String {
    host.replace(|letter: char| letter.is_ascii_digit(), "").trim_end_matches('-').to_owned()
}
