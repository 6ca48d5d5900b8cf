use std::time::Duration;

use anyhow::ensure;

use crate::lab::{Bench, Guest, Machine};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "main-job",
    about: "the whole demo, on loop devices, on a second kernel",
    run,
};

fn run(bench: &Bench) -> anyhow::Result<()> {
    let machine = Machine { memory: 2048, ..Machine::plain("rabbit") };
    let mut guest = Guest::boot(bench, machine)?;
    let output = guest.run("/programs/demo 2>&1", Duration::from_secs(300))?;
    ensure!(output.contains("nothing is left"), "the demo ended early: {output}");
    // The demo has checked its own files and mounts; this script checks that the kernel has nothing left.
    let left = guest.run(
        "losetup --list --noheadings; findmnt --list --noheadings --types xfs || true",
        Duration::from_secs(30),
    )?;
    ensure!(left.is_empty(), "left in the guest: {left}");
    Ok(())
}
