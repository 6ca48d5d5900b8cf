use std::time::Duration;

use anyhow::ensure;

use crate::lab::{
    Bench, Guest, Machine, Volume, checksum,
    functions::{bring_up, on_drive},
};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "drives",
    about: "17 functions per drive; namespaces made, attached, written, kept through a loss of power, deleted and zeroed",
    run,
};

const STEP: Duration = Duration::from_secs(90);

/// Script that makes two namespaces of 512 MiB in blocks of 4 KiB: the first for the rabbit and a compute, the
/// second for another compute.
const CARVE: &str = r#"
nvme create-ns $CONTROLLER -s 131072 -c 131072 -f 4 -m 1 >/dev/null
nvme create-ns $CONTROLLER -s 131072 -c 131072 -f 4 -m 1 >/dev/null
nvme attach-ns $CONTROLLER -n 1 -c 1,4 >/dev/null
nvme attach-ns $CONTROLLER -n 2 -c 3 >/dev/null
"#;

/// Commands that a drive must refuse, each with a different NVMe status. The reasons are: already attached, not
/// attached, no such controller, no such namespace, no capacity, thin provisioning, a format with metadata, a private
/// namespace.
const REFUSED: &str = r#"
refused() { local output; output=$("$@" 2>&1) && { echo "accepted: $*"; exit 1; }; grep -o '0x4[0-9a-f]*' <<< "$output"; }
refused nvme attach-ns $CONTROLLER -n 1 -c 4
refused nvme detach-ns $CONTROLLER -n 2 -c 4
refused nvme attach-ns $CONTROLLER -n 1 -c 99
refused nvme delete-ns $CONTROLLER -n 7
refused nvme create-ns $CONTROLLER -s 300000 -c 300000 -f 4 -m 1
refused nvme create-ns $CONTROLLER -s 4096 -c 2048 -f 4 -m 1
refused nvme create-ns $CONTROLLER -s 4096 -c 4096 -f 5 -m 1
nvme create-ns $CONTROLLER -s 4096 -c 4096 -f 4 -m 0 >/dev/null
nvme attach-ns $CONTROLLER -n 3 -c 5 >/dev/null
refused nvme attach-ns $CONTROLLER -n 3 -c 6
nvme delete-ns $CONTROLLER -n 3 >/dev/null
"#;

/// Script that prints the controllers to which both namespaces are attached, and the remaining capacity.
const LOOK: &str = r#"
for namespace in 1 2; do nvme list-ctrl $CONTROLLER -n $namespace | sed -n 's/^\[.*:0x//p' | paste -sd,; done
nvme id-ctrl $CONTROLLER | sed -n 's/^unvmcap *: //p'
"#;

fn run(bench: &Bench) -> anyhow::Result<()> {
    let mut guest = Guest::boot(bench, Machine::rabbit(1))?;
    bring_up(&mut guest, 0)?;
    guest.run(&(on_drive(0) + CARVE), STEP)?;
    let refusals = guest.run(&(on_drive(0) + REFUSED), STEP)?;
    let refusals: Vec<_> = refusals.lines().collect();
    // Each status has the bit Do Not Retry (0x4000) set.
    let wanted = ["0x4118", "0x411a", "0x411c", "0x400b", "0x4115", "0x411b", "0x410a", "0x4119"];
    ensure!(refusals == wanted, "refused with {refusals:?}, not {wanted:?}");
    check_carved(&mut guest)?;

    let disk = Volume { drive: 0, nsid: 1 }.find_script() + "mkdir -p /mnt/it\n";
    let write = checksum::write("/mnt/it/file", 64);
    let make = format!("{disk}mkfs.xfs -q $DISK\nmount $DISK /mnt/it\n{write}");
    let written = guest.run(&make, STEP)?;

    guest.lose_power()?;
    let functions = guest.run(&(on_drive(0) + "cat $SLOT/sriov_numvfs"), STEP)?;
    ensure!(functions == "0\n", "functions after a loss of power: {functions}");
    check_carved(&mut guest)?;
    bring_up(&mut guest, 0)?;
    let read = checksum::read("/mnt/it/file");
    let back = guest.run(&format!("{disk}mount $DISK /mnt/it\n{read}umount /mnt/it"), STEP)?;
    ensure!(back == written, "wrote {written}, read {back}");
    nothing_stays(&mut guest, &disk)
}

fn check_carved(guest: &mut Guest) -> anyhow::Result<()> {
    let state = guest.run(&(on_drive(0) + LOOK), STEP)?;
    ensure!(state == "1,4\n3\n1073741824\n", "controllers and capacity: {state}");
    Ok(())
}

fn nothing_stays(guest: &mut Guest, disk: &str) -> anyhow::Result<()> {
    let script = r#"
nvme delete-ns $CONTROLLER -n 1 >/dev/null
nvme delete-ns $CONTROLLER -n 2 >/dev/null
nvme id-ctrl $CONTROLLER | sed -n 's/^unvmcap *: //p'
nvme create-ns $CONTROLLER -s 131072 -c 131072 -f 4 -m 1 >/dev/null
nvme attach-ns $CONTROLLER -n 1 -c 1 >/dev/null
"#;
    let free = guest.run(&(on_drive(0) + script), STEP)?;
    ensure!(free == "2147483648\n", "bytes that are free again: {free}");
    let script = format!("{disk}cmp -n 536870912 $DISK /dev/zero && blockdev --getsize64 $DISK");
    let size = guest.run(&script, STEP)?;
    ensure!(size == "536870912\n", "size of the new namespace: {size}");
    Ok(())
}
