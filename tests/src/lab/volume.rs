use std::time::Duration;

use anyhow::Context;

use super::{Guest, Machine, functions::on_drive};

const STEP: Duration = Duration::from_secs(90);

/// Script that sets `DISK`, the block device of namespace `NSID` of subsystem `SUBSYSTEM`. It finds the device by these
/// two values, never by the device's name in the kernel.
const FIND: &str = r#"
DISK=
for try in $(seq 400); do
    for each in /sys/block/nvme*; do
        # A hidden block device is only one path to a disk (NVMe multipath).
        [ "$(cat "$each"/{nsid,device/subsysnqn,hidden} 2>/dev/null | paste -sd' ')" = "$NSID $SUBSYSTEM 0" ] && DISK=/dev/${each##*/}
    done
    [ -n "$DISK" ] && break
    sleep 0.05
done
: "${DISK:?no block device of namespace $NSID of $SUBSYSTEM}"
"#;

/// An NVMe namespace that has a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Volume {
    /// Number of the drive.
    pub drive: usize,
    /// Namespace id on the drive.
    pub nsid: u32,
}

impl Volume {
    /// Makes a namespace of `mebibytes` in blocks of 4 KiB and attaches it to controllers.
    ///
    /// # Errors
    /// When the drive refuses.
    pub fn carve(
        guest: &mut Guest,
        drive: usize,
        mebibytes: u32,
        controllers: &str,
    ) -> anyhow::Result<Self> {
        let blocks = mebibytes * 256;
        let script = format!(
            "{}\nNSID=$(nvme create-ns $CONTROLLER -s {blocks} -c {blocks} -f 4 -m 1 | sed -n 's/.*nsid:\\([0-9]*\\).*/\\1/p')\n\
             nvme attach-ns $CONTROLLER -n $NSID -c {controllers} >/dev/null\necho $NSID",
            on_drive(drive)
        );
        let nsid = guest.run(&script, STEP)?;
        Ok(Self { drive, nsid: nsid.trim().parse().context("read the new namespace's id")? })
    }

    /// Returns the beginning of a script about the volume: it waits for the volume's block device, and
    /// sets `DISK` to it.
    #[must_use]
    pub fn find_script(&self) -> String {
        format!("NSID={}\nSUBSYSTEM={}\n{FIND}", self.nsid, Machine::subsystem(self.drive))
    }
}
