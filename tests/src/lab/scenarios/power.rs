use std::time::Duration;

use anyhow::ensure;

use crate::{
    lab::{Bench, Guest, Machine, Volume, checksum},
    program::pause,
};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "power",
    about: "a computer hangs and continues; then it loses its power while it writes: all synced data is there",
    run,
};

const STEP: Duration = Duration::from_secs(90);

fn run(bench: &Bench) -> anyhow::Result<()> {
    let mut guest = Guest::boot(bench, Machine::with_drives("rabbit", 1))?;
    let volume = Volume::carve(&mut guest, 0, 512, "0")?;
    let make = volume.find_script() + "mkfs.xfs -q $DISK\nmkdir -p /mnt/it\nmount $DISK /mnt/it\n";
    let written = guest.run(&(make + &checksum::write("/mnt/it/file", 32)), STEP)?;
    let writing = guest.start(
        "n=0; while :; do n=$((n+1)); head -c 100000 /dev/urandom > /mnt/it/more-$n; echo $n; done",
    )?;
    guest.wait_for_print(writing, "\n5\n", STEP)?;

    guest.freeze()?;
    let (before, after) = (guest.printed(writing)?, {
        pause(Duration::from_secs(2));
        guest.printed(writing)?
    });
    ensure!(before == after, "a frozen computer went on: {}", &after[before.len()..]);
    guest.thaw()?;
    let next = before.lines().count() + 3;
    guest.wait_for_print(writing, &format!("\n{next}\n"), STEP)?;

    guest.lose_power()?;
    is_there(&mut guest, volume, &written)
}

fn is_there(guest: &mut Guest, volume: Volume, written: &str) -> anyhow::Result<()> {
    let mount = volume.find_script() + "mkdir -p /mnt/it\nmount $DISK /mnt/it\n";
    let back = guest.run(&(mount + &checksum::read("/mnt/it/file")), STEP)?;
    ensure!(back == written, "wrote {written}, read {back}");
    guest.run("umount /mnt/it", STEP)?;
    // The mount has replayed the XFS log, so the file system must now be consistent.
    guest.run(&(volume.find_script() + "xfs_repair -n $DISK"), STEP).map(drop)
}
