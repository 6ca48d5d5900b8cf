//! Runs mpirun of Open MPI and of MPICH in pods as Warren plans them: each host has a network and a name of its own,
//! and mpirun calls `podhelper`. The tests compare the hosts of the ranks with the plan's hosts. An exit code of 0
//! would not prove that the ranks ran there: mpirun may run all ranks on its own host and succeed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ends;
mod scene;
mod wheels;

use std::collections::BTreeMap;

use serde_json::json;

use crate::scene::{Outcome, Scene};

/// Seconds in which all workers answer, even on a busy machine.
const PATIENCE: i64 = 120;
/// Seconds to wait for workers in tests in which one of them does not answer.
const SOON: i64 = 15;

/// Host name of the first worker.
const HOST: &str = "demo-worker-0.demo.default.svc.cluster.local";

/// Returns the host of each rank. Each rank prints one line, and no other process prints a line.
fn map(outcome: &Outcome) -> BTreeMap<String, String> {
    assert!(outcome.status.success(), "{outcome:?}");
    let mut map = BTreeMap::new();
    for line in outcome.output.lines() {
        let (rank, host) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?}: {outcome:?}"));
        let before = map.insert(rank.to_owned(), host.to_owned());
        assert_eq!(before, None, "rank {rank} ran twice: {outcome:?}");
    }
    map
}

fn expected<const N: usize>(placement: [(&str, &str); N]) -> BTreeMap<String, String> {
    placement.map(|(rank, host)| (rank.to_owned(), host.to_owned())).into()
}

/// A command that makes each rank print its number, host and user in one line.
const PRINT_RANK: [&str; 3] = ["sh", "-c", "echo $OMPI_COMM_WORLD_RANK $(hostname) $(id -u)"];

fn mpirun<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let all = ["mpirun"].iter().chain(options).chain(&PRINT_RANK);
    all.copied().collect()
}

#[test]
fn ranks_run_on_the_planned_hosts_without_api_calls() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(2, 2, PATIENCE);
    scene.start_workers();
    // A deliberate call shows that the counter counts.
    scene.call_the_api(0);
    assert_eq!(scene.api_calls(), 1);
    let outcome = scene.launch(&mpirun(&[])).unwrap();
    let (first, second) = ("demo-worker-0 1050", "demo-worker-1 1050");
    let placed = expected([("0", first), ("1", first), ("2", second), ("3", second)]);
    assert_eq!(map(&outcome), placed, "{outcome:?}");
    let outcome = scene.launch(&mpirun(&["-n", "2", "--map-by", "node"])).unwrap();
    assert_eq!(map(&outcome), expected([("0", first), ("1", second)]), "{outcome:?}");
    assert_eq!(scene.api_calls(), 1, "no pod calls the API by itself");
}

#[test]
fn a_launcher_that_is_a_worker_runs_ranks() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::with(1, &json!({"runLauncherAsWorker": true}), PATIENCE);
    scene.start_workers();
    let outcome = scene.launch(&mpirun(&[])).unwrap();
    let both = expected([("0", "demo-launcher 1050"), ("1", "demo-worker-0 1050")]);
    assert_eq!(map(&outcome), both, "{outcome:?}");
}

#[test]
fn ranks_of_mpich_run_on_the_planned_hosts() {
    if !gate::mpich() {
        return;
    }
    let mut scene =
        Scene::with(2, &json!({"slotsPerWorker": 2, "mpiImplementation": "MPICH"}), PATIENCE);
    scene.start_workers();
    let says = "echo $PMI_RANK $(hostname) $(id -u)";
    let outcome = scene.launch(&["mpirun.mpich", "-n", "4", "sh", "-c", says]).unwrap();
    let (first, second) = ("demo-worker-0 1050", "demo-worker-1 1050");
    let placed = expected([("0", first), ("1", first), ("2", second), ("3", second)]);
    assert_eq!(map(&outcome), placed, "{outcome:?}");
    assert_eq!(scene.api_calls(), 0, "no pod calls the API by itself");
}

#[test]
fn mpirun_with_a_prefix_starts_ranks_without_a_shell() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(2, 1, PATIENCE);
    scene.start_workers();
    let outcome = scene.launch(&mpirun(&["--prefix", "/usr"])).unwrap();
    let one_each = expected([("0", "demo-worker-0 1050"), ("1", "demo-worker-1 1050")]);
    assert_eq!(map(&outcome), one_each, "{outcome:?}");
}

#[test]
fn each_launch_waits_for_the_workers_and_names_missing_workers() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(2, 1, SOON);
    scene.start_workers();
    let both = expected([("0", "demo-worker-0 1050"), ("1", "demo-worker-1 1050")]);
    let outcome = scene.launch(&mpirun(&[])).unwrap();
    assert_eq!(map(&outcome), both, "{outcome:?}");
    scene.stop_worker(1);
    let outcome = scene.launch(&mpirun(&[])).unwrap_err();
    let missing = "after 15 seconds 1 of 2 workers do not answer: demo-worker-1; demo-worker-1: Connection refused";
    assert!(outcome.errors.contains(missing), "{outcome:?}");
    assert!(!outcome.errors.contains("demo-worker-0"), "{outcome:?}");
    let outcome =
        scene.main(&["/nnf/bin/podhelper", "discover-hosts", "--workers=/nnf/config/workers"]);
    let hosts: Vec<&str> =
        outcome.output.lines().filter_map(|host| host.split('.').next()).collect();
    assert_eq!(hosts, ["demo-worker-0"], "{outcome:?}");
    scene.start_worker(1);
    let outcome = scene.launch(&mpirun(&[])).unwrap();
    assert_eq!(map(&outcome), both, "{outcome:?}");
}

#[test]
fn a_launcher_of_another_run_is_rejected() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(2, 1, SOON);
    scene.start_workers();
    let outcome = scene.launch(&mpirun(&[])).unwrap();
    assert_eq!(map(&outcome).len(), 2, "its own launcher is accepted: {outcome:?}");
    scene.take_other_keys();
    let outcome = scene.launch(&mpirun(&[])).unwrap_err();
    let missing =
        "2 of 2 workers do not answer: demo-worker-[0-1]; demo-worker-0: invalid peer certificate";
    assert!(outcome.errors.contains(missing), "{outcome:?}");
    // The launcher's container alone fails too: no init container has waited for the workers.
    let outcome = scene.main(&mpirun(&[]));
    assert!(!outcome.status.success() && outcome.output.is_empty(), "{outcome:?}");
    assert!(outcome.errors.contains("invalid peer certificate"), "{outcome:?}");
}

#[test]
fn only_the_job_s_user_may_read_the_keys() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(1, 1, PATIENCE);
    scene.start_workers();
    let call = ["/nnf/bin/rsh", HOST, "id -u"];
    let outcome = scene.launch(&call).unwrap();
    assert_eq!(outcome.output, "1050\n", "{outcome:?}");
    let outcome = scene.main_by_stranger(&call);
    assert!(outcome.errors.contains("key.pem") && !outcome.status.success(), "{outcome:?}");
    assert!(outcome.errors.contains("Permission denied"), "{outcome:?}");
}

#[test]
fn no_shell_on_a_worker_interprets_the_user_s_words() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(1, 1, PATIENCE);
    scene.start_workers();
    // The file's path in a pod, and its path on this machine.
    let (path_in_pod, path) = ("/nnf/scratch/touched", scene.path("nnf/scratch/touched"));
    let shell = format!("$(touch {path_in_pod})");
    let outcome = scene.launch(&["mpirun", "printf", "%s", &shell]).unwrap();
    let same = format!("$(touch {})", path.display());
    assert_eq!(outcome.output, same, "a rank receives its words unchanged: {outcome:?}");
    // The text that mpirun hands to the remote shell has mpirun's parameters and the command: shell characters are
    // refused in both.
    let outcome = scene.main(&["mpirun", "--mca", "orte_any", &shell, "true"]);
    assert!(!outcome.status.success(), "{outcome:?}");
    assert!(outcome.errors.contains("no shell runs on a worker"), "{outcome:?}");
    let outcome = scene.main(&["/nnf/bin/rsh", HOST, &format!("true; touch {path_in_pod}")]);
    assert!(!outcome.status.success(), "{outcome:?}");
    assert!(outcome.errors.contains("before the command sets no variable"), "{outcome:?}");
    assert!(!path.exists(), "a shell created the file");
    let outcome = scene.main(&["/nnf/bin/rsh", HOST, &format!("touch {path_in_pod}")]);
    assert!(
        outcome.status.success() && path.exists(),
        "a command without shell characters runs: {outcome:?}"
    );
}
