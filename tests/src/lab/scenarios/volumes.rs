use std::time::Duration;

use anyhow::ensure;

use crate::lab::{Bench, Guest, Machine};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "volumes",
    about: "the storage library's tests of logical volumes, which need device-mapper and LVM",
    run,
};

/// Script that runs the test program that `tests/lab/run` built; the tests fail if LVM is missing.
const STORIES: &str = "modprobe -a dm_mod loop xfs
WARREN_TEST_REQUIRE=loop,lvm TMPDIR=/var/tmp /programs/loop-tests --test-threads 2 volumes_ 2>&1";

fn run(bench: &Bench) -> anyhow::Result<()> {
    let machine = Machine { memory: 3072, ..Machine::plain("rabbit") };
    let mut guest = Guest::boot(bench, machine)?;
    let output = guest.run(STORIES, Duration::from_secs(300))?;
    ensure!(
        output.contains("volumes_are_created_mounted_and_removed ... ok"),
        "the tests of volumes did not run: {output}"
    );
    nothing_is_left(&mut guest)
}

/// Checks that no device-mapper device and no loop device is left.
pub(super) fn nothing_is_left(guest: &mut Guest) -> anyhow::Result<()> {
    let left = guest.run("dmsetup ls; losetup --list --noheadings", Duration::from_secs(30))?;
    ensure!(left.trim() == "No devices found", "left in the guest: {left}");
    Ok(())
}
