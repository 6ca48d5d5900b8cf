//! mpirun of Open MPI 5 and of Intel MPI, which no distribution has.

use std::path::Path;

use super::{BTreeMap, PATIENCE, Scene, Told, expected, json, map};

/// The wheel, what of it is needed, and its mpirun with the variable in which a rank finds its number.
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
    /// What ranks tell of themselves, on so many workers with so many slots each.
    fn launched(&self, wheels: &Path, workers: usize, slots: usize, with_launcher: bool) -> Told {
        let of = json!({
            "slotsPerWorker": slots, "mpiImplementation": self.name, "runLauncherAsWorker": with_launcher,
        });
        let mut scene = Scene::with(workers, &of, PATIENCE);
        // Where the pods' user reads it.
        let home = scene.path("mpi");
        scene.copy(&wheels.join(self.part), &home);
        scene.start_workers();
        let mpirun = home.join(self.mpirun).display().to_string();
        let says = format!("echo {} $(hostname) $(id -u)", self.rank);
        let ranks = (slots * (workers + usize::from(with_launcher))).to_string();
        let told = scene.launch(&[&mpirun, "-n", &ranks, "sh", "-c", &says]).unwrap();
        assert_eq!(scene.api_calls(), 0, "pods asked the API for something");
        told
    }
}

fn run_where_they_are_to(mpi: &Mpi) {
    let Some(wheels) = gate::mpi_wheels() else { return };
    let told = mpi.launched(&wheels, 2, 2, false);
    let (first, second) = ("demo-worker-0 1050", "demo-worker-1 1050");
    let placed = expected([("0", first), ("1", first), ("2", second), ("3", second)]);
    assert_eq!(map(&told), placed, "{told:?}");
    let told = mpi.launched(&wheels, 1, 1, true);
    let both: BTreeMap<_, _> = expected([("0", "demo-launcher 1050"), ("1", "demo-worker-0 1050")]);
    assert_eq!(map(&told), both, "{told:?}");
}

#[test]
fn ranks_of_open_mpi_5_run_on_the_hosts_of_the_plan() {
    run_where_they_are_to(&OPEN_MPI_5);
}

#[test]
fn ranks_of_intel_mpi_run_on_the_hosts_of_the_plan() {
    run_where_they_are_to(&INTEL);
}
