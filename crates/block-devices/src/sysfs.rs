use std::{fs, io, path::Path};

use storage::observed::DeviceNumber;

/// Reads the number of a block device, from its directory in sysfs.
pub fn number(block: &Path) -> io::Result<DeviceNumber> {
    let text = fs::read_to_string(block.join("dev"))?;
    DeviceNumber::parse(text.trim())
        .ok_or_else(|| io::Error::other(format!("{}/dev holds {text:?}", block.display())))
}
