//! Runs mpirun of Open MPI 5 and of Intel MPI from Python wheels, because no distribution has packages of them.

use std::path::Path;

use super::{BTreeMap, Outcome, PATIENCE, Scene, expected, json, map};

/// A wheel: the part that the test needs, its mpirun, and the name of the variable with the number of a rank.
struct Mpi {
    name: &'static str,
    part: &'static str,
    mpirun: &'static str,
    rank: &'static str,
}

const OPEN_MPI_5: Mpi =
    Mpi { name: "OpenMPI", part: "openmpi", mpirun: "bin/mpirun", rank: "$OMPI_COMM_WORLD_RANK" };
const INTEL: Mpi =
    Mpi { name: "Intel", part: "intel/bin", mpirun: "mpiexec.hydra", rank: "$PMI_RANK" };

impl Mpi {
    /// Launches ranks on `workers` workers with `slots` slots each, and returns the outcome with the ranks' output.
    fn launch(&self, wheels: &Path, workers: usize, slots: usize, with_launcher: bool) -> Outcome {
        let spec = json!({
            "slotsPerWorker": slots, "mpiImplementation": self.name, "runLauncherAsWorker": with_launcher,
        });
        let mut scene = Scene::with(workers, &spec, PATIENCE);
        // The wheel is copied to a path at which the pods' user can read it.
        let home = scene.path("mpi");
        scene.copy(&wheels.join(self.part), &home);
        scene.start_workers();
        let mpirun = home.join(self.mpirun).display().to_string();
        let says = format!("echo {} $(hostname) $(id -u)", self.rank);
        let ranks = (slots * (workers + usize::from(with_launcher))).to_string();
        let outcome = scene.launch(&[&mpirun, "-n", &ranks, "sh", "-c", &says]).unwrap();
        assert_eq!(scene.api_calls(), 0, "no pod calls the API by itself");
        outcome
    }
}

fn check_placement(mpi: &Mpi) {
    let Some(wheels) = gate::mpi_wheels() else { return };
    let outcome = mpi.launch(&wheels, 2, 2, false);
    let (first, second) = ("demo-worker-0 1050", "demo-worker-1 1050");
    let placed = expected([("0", first), ("1", first), ("2", second), ("3", second)]);
    assert_eq!(map(&outcome), placed, "{outcome:?}");
    let outcome = mpi.launch(&wheels, 1, 1, true);
    let both: BTreeMap<_, _> = expected([("0", "demo-launcher 1050"), ("1", "demo-worker-0 1050")]);
    assert_eq!(map(&outcome), both, "{outcome:?}");
}

#[test]
fn ranks_of_open_mpi_5_run_on_the_planned_hosts() {
    check_placement(&OPEN_MPI_5);
}

#[test]
fn ranks_of_intel_mpi_run_on_the_planned_hosts() {
    check_placement(&INTEL);
}
