//! Devices of raw storage where Kubernetes runs the containers: makes for each device a PersistentVolume, and the
//! PersistentVolumeClaim that the pods use.
//!
//! The control group of a container without privileges permits only the block devices that the kubelet gives to
//! the container. PersistentVolume and PersistentVolumeClaim name each other, so that no provisioner and no
//! other claim takes part.

use std::collections::BTreeMap;

use api::PersistentVolume;
use k8s_openapi::{
    api::core::v1::{
        LocalVolumeSource, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
        ObjectReference, PersistentVolume as Whole, PersistentVolumeClaim,
        PersistentVolumeClaimSpec, PersistentVolumeSpec, VolumeNodeAffinity,
        VolumeResourceRequirements,
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};

use crate::{
    objects::object_metadata,
    outcome::HOSTNAME,
    run::{Device, Run},
};

/// Access mode: the pods of a single node may use the volume.
const ACCESS_MODE: &str = "ReadWriteOnce";
/// Volume mode: pods get a device, not a directory.
const VOLUME_MODE: &str = "Block";

/// Returns the PersistentVolume of a device on this rabbit. The PersistentVolume is in no namespace, so a Workflow,
/// which is in a namespace, cannot be its owner: the engine deletes the PersistentVolume.
#[must_use]
pub fn volume(run: &Run<'_>, rabbit: &str, device: &Device) -> PersistentVolume {
    let claim = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: Some(run.namespace().to_owned()),
        name: Some(device.name.clone()),
        ..ObjectReference::default()
    };
    let local = LocalVolumeSource { path: device.path.clone(), ..LocalVolumeSource::default() };
    let spec = PersistentVolumeSpec {
        access_modes: Some(vec![ACCESS_MODE.to_owned()]),
        capacity: Some(size(device)),
        claim_ref: Some(claim),
        local: Some(local),
        node_affinity: Some(node_affinity(rabbit)),
        // When the PersistentVolumeClaim is deleted, Kubernetes must not delete the data: the rabbit's agent removes
        // the storage.
        persistent_volume_reclaim_policy: Some("Retain".to_owned()),
        volume_mode: Some(VOLUME_MODE.to_owned()),
        ..PersistentVolumeSpec::default()
    };
    let metadata = ObjectMeta {
        namespace: None,
        owner_references: None,
        ..object_metadata(run, &device.name)
    };
    PersistentVolume(Whole { metadata, spec: Some(spec), status: None })
}

/// Returns the PersistentVolumeClaim of the device's volume.
#[must_use]
pub fn claim(run: &Run<'_>, device: &Device) -> PersistentVolumeClaim {
    let resources =
        VolumeResourceRequirements { requests: Some(size(device)), ..Default::default() };
    let spec = PersistentVolumeClaimSpec {
        access_modes: Some(vec![ACCESS_MODE.to_owned()]),
        resources: Some(resources),
        // Without this empty name, the cluster's default StorageClass would create another volume.
        storage_class_name: Some(String::new()),
        volume_mode: Some(VOLUME_MODE.to_owned()),
        volume_name: Some(device.name.clone()),
        ..PersistentVolumeClaimSpec::default()
    };
    PersistentVolumeClaim {
        metadata: object_metadata(run, &device.name),
        spec: Some(spec),
        ..PersistentVolumeClaim::default()
    }
}

fn node_affinity(rabbit: &str) -> VolumeNodeAffinity {
    let hostname = NodeSelectorRequirement {
        key: HOSTNAME.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![rabbit.to_owned()]),
    };
    let term =
        NodeSelectorTerm { match_expressions: Some(vec![hostname]), ..NodeSelectorTerm::default() };
    VolumeNodeAffinity { required: Some(NodeSelector { node_selector_terms: vec![term] }) }
}

fn size(device: &Device) -> BTreeMap<String, Quantity> {
    [("storage".to_owned(), Quantity(device.capacity.to_string()))].into()
}

#[cfg(test)]
mod tests;
