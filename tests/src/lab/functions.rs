use std::time::Duration;

use anyhow::{Context, ensure};

use super::{Guest, Machine};

/// Script that sets `CONTROLLER` to the physical function of the drive with serial number `SERIAL`, and `SLOT` to the
/// PCI device of that function.
const FIND: &str = r#"
for each in /sys/class/nvme/nvme*; do
    if [ "$(tr -d ' ' < "$each/serial")" = "$SERIAL" ] && [ ! -e "$each/device/physfn" ]; then
        CONTROLLER=/dev/${each##*/}
        SLOT=$(readlink -f "$each/device")
    fi
done
: "${CONTROLLER:?no drive with serial number $SERIAL}"
"#;

/// Script that gives virtual functions their resources, in the only order that a drive accepts: the script takes the
/// resources from the physical function, resets that function so that it notices the loss, and gives the resources to
/// virtual functions that exist but have no driver yet.
const BRING_UP: &str = r#"
nvme virt-mgmt $CONTROLLER -c 0 -r 0 -a 1 -n 0 >/dev/null
nvme virt-mgmt $CONTROLLER -c 0 -r 1 -a 1 -n 0 >/dev/null
nvme reset $CONTROLLER
for try in $(seq 200); do [ "$(cat /sys/class/nvme/${CONTROLLER##*/}/state)" = live ] && break; sleep 0.05; done
echo 0 > $SLOT/sriov_drivers_autoprobe
cat $SLOT/sriov_totalvfs > $SLOT/sriov_numvfs
for function in $(seq "$(cat $SLOT/sriov_totalvfs)"); do
    nvme virt-mgmt $CONTROLLER -c $function -r 0 -a 8 -n 2 >/dev/null
    nvme virt-mgmt $CONTROLLER -c $function -r 1 -a 8 -n 2 >/dev/null
    nvme virt-mgmt $CONTROLLER -c $function -a 9 >/dev/null
done
echo 1 > $SLOT/sriov_drivers_autoprobe
for function in $SLOT/virtfn*; do basename "$(readlink $function)" > /sys/bus/pci/drivers/nvme/bind; done
for function in $SLOT/virtfn*; do
    for try in $(seq 200); do
        [ "$(cat $function/nvme/nvme*/state 2>/dev/null)" = live ] && break
        sleep 0.05
    done
    cat $function/nvme/nvme*/state
done
"#;

/// Script that prints the identities of the namespaces that a computer sees.
pub const LIST_NAMESPACES: &str = r#"
for each in /sys/block/nvme*; do
    # A hidden block device is only one path to a disk (NVMe multipath).
    [ "$(cat $each/hidden 2>/dev/null)" = 0 ] && cat $each/nguid
done
true
"#;

/// Returns the beginning of a script about one drive: it sets `CONTROLLER` and `SLOT`.
#[must_use]
pub fn on_drive(drive: usize) -> String {
    format!("SERIAL={}\n{FIND}", Machine::serial(drive))
}

/// Gives every virtual function of a drive its resources and its driver, with the tools of the
/// distribution (not with Warren).
///
/// # Errors
/// When a function does not come up.
pub fn bring_up(guest: &mut Guest, drive: usize) -> anyhow::Result<()> {
    let states = guest.run(&(on_drive(drive) + BRING_UP), Duration::from_secs(120))?;
    let functions = guest.machine().drives[drive].virtual_functions;
    ensure!(
        states.lines().count() == usize::from(functions)
            && states.lines().all(|state| state == "live"),
        "of {functions} functions of drive {drive} only these came alive: {states}"
    );
    Ok(())
}

/// Returns the numbers of unallocated bytes that the drives report.
///
/// # Errors
/// When a drive is missing.
pub fn unallocated(
    guest: &mut Guest,
    drives: impl IntoIterator<Item = usize>,
) -> anyhow::Result<Vec<u64>> {
    let read = "nvme id-ctrl $CONTROLLER | sed -n 's/^unvmcap *: //p'\n";
    let script: String = drives.into_iter().map(|drive| on_drive(drive) + read).collect();
    let printed = guest.run(&script, Duration::from_secs(120))?;
    printed.lines().map(|line| line.parse().context("unvmcap")).collect()
}
