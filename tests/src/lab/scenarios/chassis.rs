use std::time::Duration;

use anyhow::ensure;

use crate::{
    lab::{
        Bench, Guest, Machine, Volume, checksum,
        functions::{self, bring_up, on_drive},
    },
    program::until,
};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "chassis",
    about: "a rabbit carves for two computes: each sees its own namespaces and no other's, until they are taken away",
    run,
};

const STEP: Duration = Duration::from_secs(120);

fn run(bench: &Bench) -> anyhow::Result<()> {
    let machine = Machine::rabbit(1);
    // The rabbit boots before its computes, because the drives belong to it.
    let mut rabbit = Guest::switch_on(bench, machine.clone())?;
    let mut computes = Vec::new();
    for index in 0..2 {
        let compute = Machine::compute(index, bench, &machine);
        let small = Machine { memory: 512, processors: 1, ..compute };
        computes.push(Guest::switch_on(bench, small)?);
    }
    for guest in computes.iter().chain([&rabbit]) {
        guest.wait_for_boot()?;
    }
    bring_up(&mut rabbit, 0)?;

    // The rabbit makes the file systems, the computes write, the rabbit reads.
    let volumes =
        [Volume::carve(&mut rabbit, 0, 512, "1,2")?, Volume::carve(&mut rabbit, 0, 512, "1,3")?];
    let mut written = Vec::new();
    for (volume, compute) in volumes.iter().zip(&mut computes) {
        rabbit.run(&(volume.find_script() + "mkfs.xfs -q $DISK; sync"), STEP)?;
        let nguid = "cat /sys/block/${DISK##*/}/nguid\n";
        let identity = rabbit.run(&(volume.find_script() + nguid), STEP)?;
        let namespaces = compute.run(functions::LIST_NAMESPACES, STEP)?;
        ensure!(
            namespaces == identity,
            "the compute has {namespaces}, and the rabbit attached {identity}"
        );
        let write = checksum::write("/mnt/it/file", 32);
        written.push(
            compute.run(&format!("{}{MOUNT}{write}umount /mnt/it", volume.find_script()), STEP)?,
        );
    }
    for (volume, written) in volumes.iter().zip(&written) {
        let read = checksum::read("/mnt/it/file");
        let read =
            rabbit.run(&format!("{}{MOUNT}{read}umount /mnt/it", volume.find_script()), STEP)?;
        ensure!(read == *written, "the compute wrote {written}, the rabbit reads {read}");
    }

    taken_away_while_written(&mut rabbit, &mut computes[0], volumes[0])?;
    let namespaces = computes[1].run(functions::LIST_NAMESPACES, STEP)?;
    ensure!(namespaces.lines().count() == 1, "the other compute's namespaces: {namespaces}");
    Ok(())
}

const MOUNT: &str = "mkdir -p /mnt/it\nmount $DISK /mnt/it\n";

/// Detaches a namespace from a compute that writes to it, and checks that the compute can write no more.
fn taken_away_while_written(
    rabbit: &mut Guest,
    compute: &mut Guest,
    volume: Volume,
) -> anyhow::Result<()> {
    let write = "while dd if=/dev/urandom of=/mnt/it/more bs=64k count=16 oflag=direct,sync status=none; do echo written; done";
    let writing = compute.start(&format!("{}{MOUNT}{write}", volume.find_script()))?;
    compute.wait_for_print(writing, "written\nwritten\n", STEP)?;
    let detach = format!("{}nvme detach-ns $CONTROLLER -n {} -c 2", on_drive(0), volume.nsid);
    rabbit.run(&detach, STEP)?;
    let ended = compute.wait(writing, STEP)?;
    ensure!(ended.stderr.contains("dd:"), "the writer ended without an error: {}", ended.stderr);
    until("the compute to lose its namespaces", STEP, || {
        let namespaces = compute.run(functions::LIST_NAMESPACES, STEP)?;
        ensure!(namespaces.is_empty(), "the compute still has {namespaces}");
        Ok(())
    })
}
