use std::time::Duration;

use anyhow::ensure;

use crate::lab::{Bench, Guest, Machine, Volume, checksum};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "unplug",
    about: "a drive is pulled while mounted and written to: the other goes on; put back, it has what was synced",
    run,
};

const STEP: Duration = Duration::from_secs(90);

fn run(bench: &Bench) -> anyhow::Result<()> {
    let mut guest = Guest::boot(bench, Machine::with_drives("rabbit", 2))?;
    let volumes =
        [Volume::carve(&mut guest, 0, 512, "0")?, Volume::carve(&mut guest, 1, 512, "0")?];
    let mut sums = Vec::new();
    for volume in volumes {
        let make = format!("{}\nmkfs.xfs -q $DISK\n{}", volume.find_script(), mount(volume));
        sums.push(guest.run(&(make + &checksum::write(&file(volume), 32)), STEP)?);
    }

    // The script ends when a write fails.
    let writer = "n=0; while dd if=/dev/zero of=/mnt/drive0/more bs=64k count=16 oflag=direct,sync status=none; do n=$((n+1)); echo written $n; done";
    let writing = guest.start(writer)?;
    guest.wait_for_print(writing, "written 2\n", STEP)?;
    guest.unplug(0)?;
    let ended = guest.wait(writing, STEP)?;
    ensure!(ended.stderr.contains("dd:"), "the writer ended without an error: {}", ended.stderr);

    let other = guest.run(&checksum::read(&file(volumes[1])), STEP)?;
    ensure!(other == sums[1], "the other drive: wrote {}, read {other}", sums[1]);
    guest.run("umount /mnt/drive0; ! grep -l DRIVE0 /sys/class/nvme/*/serial", STEP)?;

    guest.plug(0)?;
    let again = format!(
        "{}\n{}{}",
        volumes[0].find_script(),
        mount(volumes[0]),
        checksum::read(&file(volumes[0]))
    );
    let back = guest.run(&again, STEP)?;
    ensure!(back == sums[0], "the drive that was pulled: wrote {}, read {back}", sums[0]);
    Ok(())
}

fn mount(volume: Volume) -> String {
    format!("mkdir -p /mnt/drive{0}\nmount $DISK /mnt/drive{0}\n", volume.drive)
}

fn file(volume: Volume) -> String {
    format!("/mnt/drive{}/file", volume.drive)
}
