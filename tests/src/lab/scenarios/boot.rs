use std::time::Duration;

use anyhow::ensure;

use crate::lab::{Bench, Guest, Machine};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "boot",
    about: "a second kernel with device-mapper, NVMe, GFS2 and DLM starts our programs",
    run,
};

fn run(bench: &Bench) -> anyhow::Result<()> {
    let mut guest = Guest::boot(bench, Machine::plain("compute-1"))?;
    let release = guest.run("uname -r", Duration::from_secs(20))?;
    ensure!(release.trim() == bench.assets().kernel_release()?, "another kernel: {release}");
    guest.run("modprobe -a dm_mod raid456 dm_raid nvme gfs2 dlm xfs", Duration::from_secs(60))?;
    for program in ["clientmount-agent", "rabbit-agent", "coordinator", "warren"] {
        let version =
            guest.run(&format!("/programs/{program} --version"), Duration::from_secs(60))?;
        ensure!(version.starts_with(&format!("{program} ")), "{program} says {version:?}");
    }
    Ok(())
}
