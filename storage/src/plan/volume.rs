//! The `plain` volume layer: a volume is the one namespace beneath it.

use std::collections::BTreeMap;

use super::Rejection;
use crate::{
    desired::{FileSystemId, FileSystemKind, Volume},
    observed::{BlockDevice, Observed, Signature, VolumeState},
};

/// The volume's device, and nothing but the volume's device.
pub(super) fn device<'a>(
    volume: &Volume,
    observed: &'a Observed,
) -> Result<&'a BlockDevice, Rejection> {
    let name = || format!("volume {}/{}", volume.group, volume.logical);
    if volume.namespaces.len() > 1 {
        return Err(Rejection::TooManyDevices { volume: name(), count: volume.namespaces.len() });
    }
    match observed.volume.as_ref().map(|state| state.devices.as_slice()) {
        Some([device]) => Ok(device),
        Some([_, _, ..]) => {
            Err(Rejection::TooManyDevices { volume: name(), count: volume.namespaces.len() })
        }
        Some([]) | None => {
            Err(Rejection::NoDevice { volume: name(), missing: volume.namespaces.clone() })
        }
    }
}

/// What a device of ours holds of the file system `wanted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    /// Nothing yet.
    No,
    /// The remains of a mkfs of ours.
    Half,
    /// All of it.
    Whole,
}

/// Whether `device` holds `wanted`; anything else on it is a rejection.
pub(super) fn made(
    device: &BlockDevice,
    state: &VolumeState,
    wanted: FileSystemId,
) -> Result<Made, Rejection> {
    let path = || device.path.clone();
    match &state.signature {
        None | Some(Signature::Blank) => Ok(Made::No),
        Some(Signature::Ours(found)) if *found == wanted => Ok(Made::Whole),
        Some(Signature::HalfMade(found)) if *found == wanted => Ok(Made::Half),
        Some(Signature::Ours(found) | Signature::HalfMade(found)) => {
            Err(Rejection::WrongFileSystem { device: path(), found: *found, wanted })
        }
        Some(Signature::Foreign { kind, uuid }) => Err(Rejection::ForeignSignature {
            device: path(),
            kind: kind.clone(),
            uuid: uuid.clone(),
        }),
    }
}

/// File systems that this build makes and mounts.
pub(super) fn supported(kind: FileSystemKind) -> Result<(), Rejection> {
    match kind {
        FileSystemKind::Raw | FileSystemKind::Xfs | FileSystemKind::Lustre => Ok(()),
        FileSystemKind::Gfs2 => Err(Rejection::Unsupported {
            what: "gfs2 (it needs LVM and a lock manager)".to_owned(),
            remedy: "use a profile with xfs or raw",
        }),
    }
}

/// What a site's line may name once the node was looked at.
pub(super) fn variables<'a>(
    pairs: impl IntoIterator<Item = (&'a str, String)>,
) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
