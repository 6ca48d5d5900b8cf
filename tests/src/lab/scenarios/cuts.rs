use std::time::Duration;

use anyhow::ensure;

use crate::lab::{
    Bench, Guest, Machine,
    cluster::{Fencing, free_port, joining},
    machine::Network,
};

use super::{Scenario, volumes::nothing_is_left};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "cuts",
    about: "LVM's commands are killed before each of their writes, from the creation of volumes to their deletion",
    run,
};

/// Deadline of a step of the cluster's software.
const STEP: Duration = Duration::from_secs(180);

/// Deadline of one test of the crate `storage`, which makes and removes volumes hundreds of times
/// on an emulated machine.
const STORY: Duration = Duration::from_secs(3600);

/// Returns a script that runs the test `story` of the crate `storage`. The script sets `WARREN_TEST_REQUIRE`, so that a
/// test that cannot run fails instead of being skipped.
fn script(story: &str, required: &str) -> String {
    format!(
        "modprobe -a dm_mod dm_raid loop xfs
mkdir -p /run/cuts
export PATH=/run/cuts:$PATH WARREN_TEST_CUTS=/run/cuts
WARREN_TEST_REQUIRE={required} TMPDIR=/var/tmp /programs/loop-tests --nocapture {story} 2>&1"
    )
}

fn run(bench: &Bench) -> anyhow::Result<()> {
    let network = Some(Network { port: free_port()?, host: 1 });
    let machine = Machine { memory: 3072, network, ..Machine::plain("rabbit") };
    let mut guest = Guest::boot(bench, machine)?;
    for story in [
        "a_striped_volume_converges_although_lvm_is_killed_at_every_call",
        "a_raid_converges_although_lvm_is_killed_at_every_call",
        "a_repair_converges_although_lvm_is_killed_at_every_call",
    ] {
        run_story(&mut guest, story, "loop,lvm,cuts")?;
    }
    for step in joining(0, Fencing::Off) {
        guest.run(&step, STEP)?;
    }
    run_story(
        &mut guest,
        "a_shared_group_converges_although_lvm_is_killed_at_every_call",
        "loop,lvm,cuts,lvmlockd",
    )
}

#[expect(clippy::print_stdout, reason = "how often each command was cut")]
fn run_story(guest: &mut Guest, story: &str, required: &str) -> anyhow::Result<()> {
    let printed = guest.run(&script(story, required), STORY)?;
    ensure!(printed.contains("test result: ok. 1 passed"), "{story} did not pass: {printed}");
    printed.lines().filter(|line| line.ends_with(" cuts")).for_each(|line| println!("{line}"));
    nothing_is_left(guest)
}
