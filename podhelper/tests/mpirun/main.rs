//! mpirun of Open MPI and of MPICH, in pods as the plan has them: each host has a network and a name of its own, `podhelper` is what
//! mpirun calls, and the ranks' hosts are compared with the plan's. That mpirun ends with 0 says nothing: ranks that nobody
//! placed run beside it, and it ends with 0.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ends;
mod scene;
mod wheels;

use std::collections::BTreeMap;

use serde_json::json;

use crate::scene::{Scene, Told};

/// Longer than workers need to answer on a busy machine.
const PATIENCE: i64 = 120;
/// The same, where one does not answer.
const SOON: i64 = 15;

/// The worker's host.
const HOST: &str = "demo-worker-0.demo.default.svc.cluster.local";

/// Which host each rank ran on. Each rank says one line, and nobody else says any.
fn map(told: &Told) -> BTreeMap<String, String> {
    assert!(told.status.success(), "{told:?}");
    let mut map = BTreeMap::new();
    for line in told.output.lines() {
        let (rank, host) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?}: {told:?}"));
        let before = map.insert(rank.to_owned(), host.to_owned());
        assert_eq!(before, None, "rank {rank} ran twice: {told:?}");
    }
    map
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
    let both = expected([("0", "demo-worker-0 1050"), ("1", "demo-worker-1 1050")]);
    let told = scene.launch(&mpirun(&[])).unwrap();
    assert_eq!(map(&told), both, "{told:?}");
    scene.stop_worker(1);
    let told = scene.launch(&mpirun(&[])).unwrap_err();
    let missing = "after 15 seconds 1 of 2 workers do not answer: demo-worker-1; demo-worker-1: Connection refused";
    assert!(told.errors.contains(missing), "{told:?}");
    assert!(!told.errors.contains("demo-worker-0"), "{told:?}");
    let told =
        scene.main(&["/nnf/bin/podhelper", "discover-hosts", "--workers=/nnf/config/workers"]);
    let hosts: Vec<&str> = told.output.lines().filter_map(|host| host.split('.').next()).collect();
    assert_eq!(hosts, ["demo-worker-0"], "{told:?}");
    scene.start_worker(1);
    let told = scene.launch(&mpirun(&[])).unwrap();
    assert_eq!(map(&told), both, "{told:?}");
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
    let missing =
        "2 of 2 workers do not answer: demo-worker-[0-1]; demo-worker-0: invalid peer certificate";
    assert!(told.errors.contains(missing), "{told:?}");
    // And without the wait before it.
    let told = scene.main(&mpirun(&[]));
    assert!(!told.status.success() && told.output.is_empty(), "{told:?}");
    assert!(told.errors.contains("invalid peer certificate"), "{told:?}");
}

#[test]
fn only_the_job_s_user_reads_the_keys() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(1, 1, PATIENCE);
    scene.start_workers();
    let call = ["/nnf/bin/rsh", HOST, "id -u"];
    let told = scene.launch(&call).unwrap();
    assert_eq!(told.output, "1050\n", "{told:?}");
    let told = scene.main_by_stranger(&call);
    assert!(told.errors.contains("key.pem") && !told.status.success(), "{told:?}");
    assert!(told.errors.contains("Permission denied"), "{told:?}");
}

#[test]
fn what_a_user_writes_reaches_no_shell_on_a_worker() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(1, 1, PATIENCE);
    scene.start_workers();
    // Where it is in a pod, and here.
    let (made, path) = ("/nnf/scratch/made", scene.path("nnf/scratch/made"));
    let shell = format!("$(touch {made})");
    let told = scene.launch(&["mpirun", "printf", "%s", &shell]).unwrap();
    let same = format!("$(touch {})", path.display());
    assert_eq!(told.output, same, "a rank has its words as they are: {told:?}");
    // What stands in the text for the remote shell: a parameter of mpirun, and a command.
    let told = scene.main(&["mpirun", "--mca", "orte_any", &shell, "true"]);
    assert!(!told.status.success(), "{told:?}");
    assert!(told.errors.contains("no shell runs on a worker"), "{told:?}");
    let told = scene.main(&["/nnf/bin/rsh", HOST, &format!("true; touch {made}")]);
    assert!(!told.status.success(), "{told:?}");
    assert!(told.errors.contains("before the command sets no variable"), "{told:?}");
    assert!(!path.exists(), "a shell made it");
    let told = scene.main(&["/nnf/bin/rsh", HOST, &format!("touch {made}")]);
    assert!(told.status.success() && path.exists(), "what is no shell's is carried out: {told:?}");
}
