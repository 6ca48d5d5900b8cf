use crate::{
    centre::Job,
    lab::{
        Bench,
        cluster::{Cluster, Fencing},
        system::{MOUNT_ROOT, System},
    },
    lives,
    run::{Run, Silent},
};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "jobs",
    about: "our programs on a rabbit and two computes: an XFS each and then a raw volume each on four drives, written there, read on the rabbit",
    run,
};

fn run(bench: &Bench) -> anyhow::Result<()> {
    let cluster = Cluster::boot_bare(bench, 2, 4, Fencing::Off)?;
    let job = Job::new(1, "xfs", MOUNT_ROOT);
    let mut run = Run { cluster: System::start(cluster)?, job, narrator: Silent, patient: false };
    let outcome = lives(&mut run);
    outcome.map_err(|error| run.cluster.explained(error))
}

fn lives(run: &mut Run<Silent, System>) -> anyhow::Result<()> {
    run.describe_system()?;
    run.whole_life()?;
    run.cluster.until_empty()?;
    run.job = Job::new(2, "raw", MOUNT_ROOT);
    lives::raw_life(run)?;
    run.cluster.until_empty()
}
