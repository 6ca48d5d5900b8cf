//! Where a volume's file system is, and what is written there.

use std::collections::BTreeMap;

use super::{Rejection, lvm::Lvm};
use crate::{
    desired::{FileSystemId, FileSystemKind, Volume, VolumeLayer},
    observed::{BlockDevice, Observed, Signature, VolumeDevice, VolumeState},
};

/// The volume's device, and nothing but the volume's device; `None` while it is not active.
pub(super) fn device(
    volume: &Volume,
    observed: &Observed,
) -> Result<Option<VolumeDevice>, Rejection> {
    match (&volume.layer, Lvm::of(volume, observed.volume.as_ref())) {
        (VolumeLayer::Plain, _) => plain(volume, observed).map(Some),
        (VolumeLayer::Lvm(_), Some(lvm)) => lvm.device(),
        (VolumeLayer::Lvm(_), None) => Ok(None),
    }
}

/// The `plain` layer: a volume is the one namespace beneath it.
fn plain(volume: &Volume, observed: &Observed) -> Result<VolumeDevice, Rejection> {
    let name = || format!("volume {volume}");
    if volume.namespaces.len() > 1 {
        return Err(Rejection::TooManyDevices { volume: name(), count: volume.namespaces.len() });
    }
    match observed.volume.as_ref().map(|state| state.devices.as_slice()) {
        Some([device]) => Ok(device.into()),
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
///
/// On a volume whose group another agent made, a file system of the right kind is the one: that agent derived no UUIDs,
/// and the group's name and devices prove whose it is.
pub(super) fn made(
    device: &VolumeDevice,
    volume: &Volume,
    state: &VolumeState,
    (wanted, kind): (FileSystemId, FileSystemKind),
) -> Result<Made, Rejection> {
    let path = || device.path.clone();
    let is_adopted = Lvm::of(volume, Some(state)).is_some_and(|lvm| lvm.is_adopted());
    match &state.signature {
        // Whoever has not looked does not know that nothing is there, and a mkfs would end what is.
        None => Err(Rejection::NotLookedAt { device: path() }),
        Some(Signature::Blank) => Ok(Made::No),
        Some(Signature::Ours(found)) if *found == wanted => Ok(Made::Whole),
        Some(Signature::HalfMade(found)) if *found == wanted => Ok(Made::Half),
        Some(Signature::Ours(found) | Signature::HalfMade(found)) => {
            Err(Rejection::WrongFileSystem { device: path(), found: *found, wanted })
        }
        Some(Signature::Foreign { kind: found, .. }) if is_adopted && found == kind.as_str() => {
            Ok(Made::Whole)
        }
        Some(Signature::Foreign { kind, uuid }) => Err(Rejection::ForeignSignature {
            device: path(),
            kind: kind.clone(),
            uuid: uuid.clone(),
        }),
    }
}

/// What a site's line may name once the node was looked at.
pub(super) fn variables(
    pairs: impl IntoIterator<Item = (String, String)>,
) -> BTreeMap<String, String> {
    pairs.into_iter().collect()
}

/// `$DEVICE_LIST`, `$DEVICE_NUM`, `$DEVICE_NUM-1`, `$DEVICE_NUM-2` and `$DEVICE1` onwards.
pub(super) fn of_devices(devices: &[BlockDevice]) -> Vec<(String, String)> {
    let paths: Vec<_> = devices.iter().map(|device| device.path.display().to_string()).collect();
    let count = paths.len();
    let mut pairs = vec![
        ("$DEVICE_LIST".to_owned(), paths.join(" ")),
        ("$DEVICE_NUM".to_owned(), count.to_string()),
        ("$DEVICE_NUM-1".to_owned(), count.saturating_sub(1).to_string()),
        ("$DEVICE_NUM-2".to_owned(), count.saturating_sub(2).to_string()),
    ];
    pairs.extend(
        paths.into_iter().zip(1..).map(|(path, number)| (format!("$DEVICE{number}"), path)),
    );
    pairs
}
