//! Checks the device of a volume's file system, and its signature.

use std::collections::BTreeMap;

use super::{Rejection, lvm::Lvm};
use crate::{
    desired::{FileSystemId, FileSystemKind, Volume, VolumeLayer},
    observed::{BlockDevice, Observed, Signature, VolumeDevice, VolumeState},
};

/// Returns the volume's device, checked; `None` while the volume is not active.
pub(super) fn device(
    volume: &Volume,
    observed: &Observed,
) -> Result<Option<VolumeDevice>, Rejection> {
    match (&volume.layer, Lvm::new(volume, observed.volume.as_ref())) {
        (VolumeLayer::Plain, _) => plain(volume, observed).map(Some),
        (VolumeLayer::Lvm(_), Some(lvm)) => lvm.device(),
        (VolumeLayer::Lvm(_), None) => Ok(None),
    }
}

/// Returns the device of a volume with the `plain` layer: the device of its only namespace.
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

/// How complete the wanted file system on a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completeness {
    Missing,
    /// A mkfs that Warren started was interrupted.
    Interrupted,
    Complete,
}

/// Returns how complete the file system `wanted` on `device` is; any other contents are a rejection.
///
/// In a volume group that an earlier agent of the site made, any file system of the right kind counts as complete: that
/// agent did not derive UUIDs as Warren does, and the group's name and devices already prove who owns it.
pub(super) fn completeness(
    device: &VolumeDevice,
    volume: &Volume,
    state: &VolumeState,
    (wanted, kind): (FileSystemId, FileSystemKind),
) -> Result<Completeness, Rejection> {
    let path = || device.path.clone();
    let is_adopted = Lvm::new(volume, Some(state)).is_some_and(|lvm| lvm.is_adopted());
    match &state.signature {
        // A device whose signature was not read may hold a file system, which a mkfs would destroy.
        None => Err(Rejection::SignatureUnread { device: path() }),
        Some(Signature::Blank) => Ok(Completeness::Missing),
        Some(Signature::Ours(found)) if *found == wanted => Ok(Completeness::Complete),
        Some(Signature::HalfMade(found)) if *found == wanted => Ok(Completeness::Interrupted),
        Some(Signature::Ours(found) | Signature::HalfMade(found)) => {
            Err(Rejection::WrongFileSystem { device: path(), found: *found, wanted })
        }
        Some(Signature::Foreign { kind: found, .. }) if is_adopted && found == kind.as_str() => {
            Ok(Completeness::Complete)
        }
        Some(Signature::Foreign { kind, uuid }) => Err(Rejection::ForeignSignature {
            device: path(),
            kind: kind.clone(),
            uuid: uuid.clone(),
        }),
    }
}

/// Collects the variables of a site's line whose values are known only after an observation.
pub(super) fn variables(
    pairs: impl IntoIterator<Item = (String, String)>,
) -> BTreeMap<String, String> {
    pairs.into_iter().collect()
}

/// Returns the variables that describe devices: `$DEVICE_LIST`, `$DEVICE_NUM`, `$DEVICE_NUM-1`, `$DEVICE_NUM-2`, and
/// `$DEVICE1` and so on.
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
