use std::{fs, time::Duration};

use anyhow::Context;

use super::{Bench, Guest};
use crate::lustre_tools::LUSTRES_OWN;

const STEP: Duration = Duration::from_secs(300);

/// Script that runs at a rabbit's boot. It installs ZFS's tools and modules, and the host id, by which a
/// pool recognizes its host.
const INSTALL: &str = "\
tar -xf /lab/zfs.tar -C / --skip-old-files
ldconfig
depmod -a
zgenhostid -f 7ab817c0
modprobe zfs
";

/// Installs ZFS in a guest that has booted, and stand-ins for Lustre's own programs. After a loss of power, the
/// installation must be repeated.
///
/// # Errors
/// When ZFS was not built, or the guest's kernel does not load ZFS's modules.
pub fn install(bench: &Bench, guest: &mut Guest) -> anyhow::Result<()> {
    let archive = guest.exchange().join("zfs.tar");
    fs::copy(bench.assets().zfs()?, archive).context("hand ZFS to the guest")?;
    let links = LUSTRES_OWN.map(|name| format!("ln -s /programs/lustre-tools /usr/sbin/{name}\n"));
    guest.run(&format!("{INSTALL}{}", links.concat()), STEP).map(drop)
}
