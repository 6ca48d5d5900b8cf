use std::time::Duration;

use anyhow::ensure;

use crate::lab::{Bench, Guest, Machine, Volume, checksum};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "raid",
    about: "a drive of a RAID volume is pulled: the volume is repaired with a spare drive, and is written to all the time",
    run,
};

const STEP: Duration = Duration::from_secs(180);

/// Shell functions: `state FIELD` prints a field of `lvs` for the volume; `wait_for CONDITION` waits at most two
/// minutes until the command CONDITION succeeds.
const LOOK: &str = r#"
state() { lvs --noheadings -o "$1" vg0/lv-0 2>/dev/null | tr -d ' '; }
wait_for() {
    for try in $(seq 400); do "$@" && return; sleep 0.3; done
    echo "timed out while waiting for $*" >&2
    lvs -a -o lv_name,lv_attr,sync_percent,lv_health_status,devices vg0 >&2
    return 1
}
synced() { [ "$(state sync_percent)" = 100.00 ]; }
whole() { [ -z "$(state lv_health_status)" ] && synced; }
"#;

/// Script that makes a RAID 5 on the first three drives; the fourth is the spare.
const MAKE: &str = r#"
modprobe -a raid456 dm_raid
vgcreate -q vg0 $DISKS >/dev/null
lvcreate -q -y --type raid5 --stripes 2 -L 400M -n lv-0 vg0 ${DISKS% *} >/dev/null
wait_for synced
mkfs.xfs -q /dev/vg0/lv-0
mkdir -p /mnt/it
mount /dev/vg0/lv-0 /mnt/it
"#;

/// Script that writes until the file /run/enough exists, and fails when a write fails.
const WRITE: &str = "n=0; until [ -e /run/enough ]; do n=$((n+1)); dd if=/dev/urandom of=/mnt/it/more bs=256k count=8 conv=fsync status=none; echo $n; done";

fn run(bench: &Bench) -> anyhow::Result<()> {
    let mut guest = Guest::boot(bench, Machine::with_drives("rabbit", 4))?;
    let mut disks = "DISKS=\n".to_owned();
    for drive in 0..4 {
        let volume = Volume::carve(&mut guest, drive, 512, "0")?;
        disks.push_str(&format!("{}DISKS=\"${{DISKS:+$DISKS }}$DISK\"\n", volume.find_script()));
    }
    let make = format!("{disks}{LOOK}{MAKE}{}", checksum::write("/mnt/it/file", 64));
    let written = guest.run(&make, STEP)?;
    let writing = guest.start(WRITE)?;
    guest.wait_for_print(writing, "\n3\n", STEP)?;

    guest.unplug(1)?;
    let pulled = guest.printed(writing)?.lines().count();
    guest.wait_for_print(writing, &format!("\n{}\n", pulled + 3), STEP)?;
    let health = guest.run(&format!("{LOOK}state lv_health_status"), STEP)?;
    ensure!(health == "partial\n", "health of a volume that has lost a drive: {health}");

    // LVM must choose the spare: no other drive of the group has room.
    let repair = "lvconvert -q -y --repair vg0/lv-0 >/dev/null\nwait_for whole\nvgreduce -q --removemissing vg0 >/dev/null\n";
    guest.run(&format!("{LOOK}{repair}"), STEP)?;
    guest.run("touch /run/enough", STEP)?;
    guest.finish(writing, STEP)?;
    let back = guest.run(&checksum::read("/mnt/it/file"), STEP)?;
    ensure!(back == written, "wrote {written}, read {back}");
    check_parity(&mut guest)
}

/// Reads every stripe of the volume, and compares it with its parity.
fn check_parity(guest: &mut Guest) -> anyhow::Result<()> {
    let check = "lvchange --syncaction check vg0/lv-0\nidle() { [ \"$(state raid_sync_action)\" = idle ]; }\nwait_for idle\nstate raid_mismatch_count";
    let mismatches = guest.run(&format!("{LOOK}{check}"), STEP)?;
    ensure!(mismatches == "0\n", "{mismatches} stripes do not agree with their parity");
    Ok(())
}
