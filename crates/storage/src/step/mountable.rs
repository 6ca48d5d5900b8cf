use std::fmt;

use crate::observed::VolumeDevice;

/// What is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mountable {
    /// A device: by the time it is mounted, its name may be another's.
    Device(VolumeDevice),
    /// A directory or file to show once more, a Lustre target's dataset, or `<mgs>:/<fsname>`.
    Name(String),
}

impl fmt::Display for Mountable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(device) => device.path.display().fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}
