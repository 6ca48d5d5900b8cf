use crate::{
    adoption::adopt_use_release_destroy,
    centre::Job,
    lab::{
        Bench,
        cluster::{Cluster, Fencing},
        system::{MOUNT_ROOT, System},
    },
    run::{Run, Silent},
    workflow::wait_for_rabbit,
};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "adoption",
    about: "a GFS2 each for two computes, made with the objects of the Go controllers, is adopted, used by a job, released, and mounted with its data",
    run,
};

fn run(bench: &Bench) -> anyhow::Result<()> {
    let cluster = Cluster::boot_bare(bench, 2, 4, Fencing::Off)?;
    let job = Job { capacity: 256 << 20, ..Job::new(1, "gfs2", MOUNT_ROOT) };
    let mut run = Run { cluster: System::start(cluster)?, job, narrator: Silent, patient: false };
    let outcome = run
        .describe_system()
        .and_then(|()| wait_for_rabbit(&run))
        .and_then(|()| adopt_use_release_destroy(&mut run))
        .and_then(|()| run.cluster.until_empty());
    outcome.map_err(|error| run.cluster.explained(error))
}
