use std::time::Duration;

use anyhow::ensure;

use crate::lab::{Guest, Volume, checksum, functions::on_drive};

const STEP: Duration = Duration::from_secs(300);

/// Name of the foreign pool, which Warren did not make.
const POOL: &str = "elses";

/// Number of MiB at the start of each drive in which the test looks for labels of pools.
const LOOKED_AT: u32 = 256;

/// A ZFS pool on a namespace, neither of which Warren made.
pub(super) struct Foreign {
    volume: Volume,
    /// Checksum of the data in the pool.
    data: String,
}

impl Foreign {
    pub(super) fn plant(guest: &mut Guest) -> anyhow::Result<Self> {
        let volume = Volume::carve(guest, 2, 256, "0")?;
        let make = format!(
            "{}zpool create -o cachefile=none -O mountpoint=/mnt/{POOL} {POOL} $DISK\n",
            volume.find_script()
        );
        let write = checksum::write(&format!("/mnt/{POOL}/data"), 16);
        let data = guest.run(&format!("{make}{write}zpool sync {POOL}"), STEP)?;
        Ok(Self { volume, data })
    }

    /// Checks that the pool is still imported: our programs have neither exported nor destroyed it.
    pub(super) fn is_imported(&self, guest: &mut Guest) -> anyhow::Result<()> {
        let read = checksum::read(&format!("/mnt/{POOL}/data"));
        let now = guest.run(&format!("zpool list -H -o health {POOL}\n{read}"), STEP)?;
        ensure!(now == format!("ONLINE\n{}", self.data), "the foreign pool: {now}");
        Ok(())
    }

    /// Checks that the pool is not imported after a loss of power, but can be imported.
    pub(super) fn is_at_rest(&self, guest: &mut Guest) -> anyhow::Result<()> {
        let imported = guest.run(&format!("zpool list -H -o name | grep {POOL} || true"), STEP)?;
        ensure!(imported.is_empty(), "the foreign pool was imported");
        let found = guest
            .run(&format!("{}zpool import -d ${{DISK}}p1", self.volume.find_script()), STEP)?;
        let is_there =
            found.contains(&format!("pool: {POOL}\n")) && found.contains("state: ONLINE");
        ensure!(is_there, "the foreign pool cannot be imported: {found}");
        Ok(())
    }

    /// Imports the pool as its owner does, checks its data, and deletes the namespace.
    pub(super) fn check_data_and_delete(&self, guest: &mut Guest) -> anyhow::Result<()> {
        guest.run(
            &format!("{}zpool import -d ${{DISK}}p1 {POOL}", self.volume.find_script()),
            STEP,
        )?;
        self.is_imported(guest)?;
        guest.run(&format!("zpool destroy {POOL}\n{}", delete(self.volume)), STEP)?;
        Ok(())
    }
}

/// Checks that new namespaces contain no label of a pool and no other data.
pub(super) fn no_labels(guest: &mut Guest) -> anyhow::Result<()> {
    for drive in 0..guest.machine().drives.len() {
        let volume = Volume::carve(guest, drive, LOOKED_AT, "0")?;
        let look = "cmp -n $(blockdev --getsize64 $DISK) /dev/zero $DISK\n";
        guest.run(&format!("{}{look}{}", volume.find_script(), delete(volume)), STEP)?;
    }
    Ok(())
}

fn delete(volume: Volume) -> String {
    format!("{}nvme delete-ns $CONTROLLER -n {} >/dev/null\n", on_drive(volume.drive), volume.nsid)
}
