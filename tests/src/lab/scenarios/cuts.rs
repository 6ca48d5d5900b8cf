use std::time::Duration;

use anyhow::ensure;

use crate::lab::{Bench, Guest, Machine};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "cuts",
    about: "LVM's commands killed before each of their writes, over the lives of volumes",
    run,
};

const STORIES: &str = "modprobe -a dm_mod dm_raid raid456 loop xfs
mkdir -p /run/cuts
export PATH=/run/cuts:$PATH WARREN_TEST_CUTS=/run/cuts
WARREN_TEST_REQUIRE=loop,lvm,cuts TMPDIR=/var/tmp /programs/loop-tests --test-threads 1 --nocapture cuts_ 2>&1";

fn run(bench: &Bench) -> anyhow::Result<()> {
    let machine = Machine { memory: 3072, ..Machine::plain("rabbit") };
    let mut guest = Guest::boot(bench, machine)?;
    let told = guest.run(STORIES, Duration::from_secs(3600))?;
    ensure!(told.contains("test result: ok. 2 passed"), "the stories were not told: {told}");
    let left = guest.run("dmsetup ls; losetup --list --noheadings", Duration::from_secs(30))?;
    ensure!(left.trim() == "No devices found", "left in the guest: {left}");
    Ok(())
}
