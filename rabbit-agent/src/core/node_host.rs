//! Opens the rabbit as the host of crate `storage`: its drives are on its own PCI bus, or behind PCIe switches.

use std::sync::Arc;

use drives::Switches;
use storage_linux::{DriveConfig, LinuxHost};

use crate::{config::Config, core::run::RunError};

/// Opens the rabbit's storage.
///
/// # Errors
/// When a directory of the agent's records, or the file for the messages of switches, cannot be opened.
pub(crate) fn open_host(config: &Config) -> Result<LinuxHost, RunError> {
    let switches = match config.storage.drives {
        DriveConfig::Nvme { .. } => switches(config)?,
        DriveConfig::NvmeNamespaces | DriveConfig::File { .. } => None,
    };
    LinuxHost::with_switches(config.storage.clone(), switches).map_err(RunError::Storage)
}

#[cfg(feature = "switchtec")]
fn switches(config: &Config) -> Result<Option<Arc<dyn Switches>>, RunError> {
    let fabric = switchtec::Fabric::new(config.switchtec_record.as_deref());
    Ok(Some(Arc::new(fabric.map_err(RunError::SwitchtecRecord)?)))
}

/// Fails on a rabbit whose drives are behind PCIe switches: without access to the switches, the agent would report that
/// the rabbit has no drives.
#[cfg(not(feature = "switchtec"))]
fn switches(_: &Config) -> Result<Option<Arc<dyn Switches>>, RunError> {
    let devices = std::fs::read_dir("/dev").map_err(RunError::Devices)?;
    let mut names = devices.filter_map(|device| device.ok()?.file_name().into_string().ok());
    let is_present = names.any(|name| name.starts_with("switchtec"));
    if is_present { Err(RunError::NoSwitchtec) } else { Ok(None) }
}
