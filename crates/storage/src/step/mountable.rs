use std::fmt;

use crate::observed::VolumeDevice;

/// The source of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mountable {
    /// A device. Its path may belong to another device by the time of the mount, so the step checks the path again.
    Device(VolumeDevice),
    /// A directory or file to bind-mount, a Lustre target's dataset, or a Lustre client's source `<mgs>:/<fsname>`.
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
