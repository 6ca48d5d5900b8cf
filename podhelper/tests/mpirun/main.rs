//! mpirun of Open MPI and of MPICH, in pods as the plan has them: each host has a network and a name of its own, `podhelper` is what
//! mpirun calls, and the ranks' hosts are compared with the plan's. That mpirun ends with 0 says nothing: ranks that nobody
//! placed run beside it, and it ends with 0.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod scene;

use std::collections::BTreeMap;

use serde_json::json;

use crate::scene::{Scene, Told};

/// Longer than workers need to answer on a busy machine.
const PATIENCE: i64 = 120;
/// The same, where one does not answer.
const SOON: i64 = 15;

/// Which host each rank ran on.
fn map(told: &Told) -> BTreeMap<String, String> {
    let line = |line: &str| {
        let (rank, host) = line.split_once(' ')?;
        Some((rank.to_owned(), host.to_owned()))
    };
    told.output.lines().filter_map(line).collect()
}

fn expected<const N: usize>(of: [(&str, &str); N]) -> BTreeMap<String, String> {
    of.map(|(rank, host)| (rank.to_owned(), host.to_owned())).into()
}

/// A program whose ranks say who and where they are, each in one line.
const SAYS: [&str; 3] = ["sh", "-c", "echo $OMPI_COMM_WORLD_RANK $(hostname) $(id -u)"];

fn mpirun<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let all = ["mpirun"].iter().chain(options).chain(&SAYS);
    all.copied().collect()
}

#[test]
fn ranks_run_on_the_hosts_of_the_plan_and_nobody_asks_the_api() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(2, 2, PATIENCE);
    scene.start_workers();
    // The counter counts.
    scene.call_the_api(0);
    assert_eq!(scene.api_calls(), 1);
    let told = scene.launch(&mpirun(&[])).unwrap();
    assert!(told.status.success(), "{told:?}");
    let (first, second) = ("demo-worker-0 1050", "demo-worker-1 1050");
    let placed = expected([("0", first), ("1", first), ("2", second), ("3", second)]);
    assert_eq!(map(&told), placed, "{told:?}");
    let told = scene.launch(&mpirun(&["-n", "2", "--map-by", "node"])).unwrap();
    assert_eq!(map(&told), expected([("0", first), ("1", second)]), "{told:?}");
    assert_eq!(scene.api_calls(), 1, "pods asked the API for something");
}

#[test]
fn a_launcher_that_is_a_worker_has_ranks_too() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::with(1, &json!({"runLauncherAsWorker": true}), PATIENCE);
    scene.start_workers();
    let told = scene.launch(&mpirun(&[])).unwrap();
    let both = expected([("0", "demo-launcher 1050"), ("1", "demo-worker-0 1050")]);
    assert_eq!(map(&told), both, "{told:?}");
}

#[test]
fn ranks_of_mpich_run_on_the_hosts_of_the_plan() {
    if !gate::mpich() {
        return;
    }
    let mut scene =
        Scene::with(2, &json!({"slotsPerWorker": 2, "mpiImplementation": "MPICH"}), PATIENCE);
    scene.start_workers();
    let says = "echo $PMI_RANK $(hostname) $(id -u)";
    let told = scene.launch(&["mpirun.mpich", "-n", "4", "sh", "-c", says]).unwrap();
    let (first, second) = ("demo-worker-0 1050", "demo-worker-1 1050");
    let placed = expected([("0", first), ("1", first), ("2", second), ("3", second)]);
    assert_eq!(map(&told), placed, "{told:?}");
    assert_eq!(scene.api_calls(), 0, "pods asked the API for something");
}

#[test]
fn an_installation_with_a_prefix_is_found_without_a_shell() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(2, 1, PATIENCE);
    scene.start_workers();
    let told = scene.launch(&mpirun(&["--prefix", "/usr"])).unwrap();
    let one_each = expected([("0", "demo-worker-0 1050"), ("1", "demo-worker-1 1050")]);
    assert_eq!(map(&told), one_each, "{told:?}");
}

#[test]
fn every_try_waits_for_the_workers_again_and_names_those_that_are_away() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(2, 1, SOON);
    scene.start_workers();
    let told = scene.launch(&mpirun(&[])).unwrap();
    assert!(told.status.success(), "{told:?}");
    scene.stop_worker(1);
    let told = scene.launch(&mpirun(&[])).unwrap_err();
    let missing = "1 of 2 workers do not answer: demo-worker-1.demo.default.svc.cluster.local (";
    assert!(told.errors.contains(missing) && told.errors.contains("after 15 seconds"), "{told:?}");
    assert!(!told.errors.contains("demo-worker-0"), "{told:?}");
    scene.start_worker(1);
    let told = scene.launch(&mpirun(&[])).unwrap();
    assert_eq!(map(&told).len(), 2, "{told:?}");
}

#[test]
fn a_launcher_of_another_run_is_refused() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(2, 1, SOON);
    scene.start_workers();
    let told = scene.launch(&mpirun(&[])).unwrap();
    assert_eq!(map(&told).len(), 2, "its own is not: {told:?}");
    scene.take_other_keys();
    let told = scene.launch(&mpirun(&[])).unwrap_err();
    assert!(told.errors.contains("2 of 2 workers do not answer"), "{told:?}");
    assert!(told.errors.contains("invalid peer certificate"), "{told:?}");
    // And without the wait before it.
    let told = scene.main(&mpirun(&[]));
    assert!(!told.status.success() && map(&told).is_empty(), "{told:?}");
}

#[test]
fn what_a_user_writes_reaches_no_shell_on_a_worker() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(1, 1, PATIENCE);
    scene.start_workers();
    let word = "$(hostname); `hostname` | x";
    let told = scene.launch(&["mpirun", "echo", word]).unwrap();
    assert_eq!(told.output.trim(), word, "{told:?}");
    let host = "demo-worker-0.demo.default.svc.cluster.local";
    let told = scene.main(&["/nnf/bin/rsh", host, "echo $(hostname)"]);
    assert!(told.errors.contains("no shell runs on a worker"), "{told:?}");
}
