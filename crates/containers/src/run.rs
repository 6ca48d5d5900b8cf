//! What the containers of one directive are made from.

use std::collections::BTreeMap;

use api::{NnfContainerProfileData, node_containers::PackagePath};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::mpi::Attempt;

/// The containers of one directive, on all of its rabbits.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// Name of the workflow, which is that of the Service too.
    pub workflow: &'a str,
    /// Name of the ConfigMap: that of everything which belongs to the directive.
    pub name: &'a str,
    /// Namespace, labels and owner of all objects.
    pub metadata: ObjectMeta,
    /// Whom the containers run as.
    pub user: i64,
    /// The group that they run as.
    pub group: i64,
    /// What they run.
    pub profile: &'a NnfContainerProfileData,
    /// The storage that they see.
    pub storages: &'a [StoragePath],
    /// Where packages are, by rabbit.
    pub packages: &'a BTreeMap<String, Vec<PackagePath>>,
    /// The devices of raw storage by rabbit, where Kubernetes runs the containers.
    pub devices: &'a BTreeMap<String, Vec<Device>>,
    /// Where they run.
    pub placement: &'a [Rabbit],
    /// Their ports, the same on every rabbit: a compute is told of one list.
    pub ports: &'a [u16],
    /// The port of MPI's own network, where no Kubernetes has one.
    pub network_port: Option<u16>,
    /// Which attempt it is; none without MPI.
    pub attempt: Option<&'a Attempt>,
    /// The domain of the cluster, such as `cluster.local`.
    pub cluster_domain: &'a str,
}

/// Storage that containers see at the path that it has on their rabbit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoragePath {
    /// The variable with its path, such as `DW_JOB_scratch`.
    pub variable: String,
    /// The path: a directory, on the rabbit and in the container.
    pub path: String,
    /// Whence it is there.
    pub source: StorageSource,
}

/// Whence storage is on a rabbit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageSource {
    /// Its agent mounts it for the job.
    Rabbit,
    /// It is a Lustre of the site's own: the rabbit has it mounted anyway, and a pod gets it by this PersistentVolumeClaim.
    Global { claim: String },
}

/// A block device of raw storage on a rabbit, which pods there are given by a PersistentVolume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Name of the PersistentVolume and of its claim.
    pub name: String,
    /// Path of the device on the rabbit, beneath the path of its storage.
    pub path: String,
    /// Its size in bytes.
    pub capacity: i64,
}

/// A rabbit of a run, with the job's computes that it serves in the job's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rabbit {
    /// Its name.
    pub name: String,
    /// The computes, each with its place among all of the job's.
    pub computes: Vec<(usize, String)>,
}

impl Run<'_> {
    /// Namespace of all objects.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The storages that containers see, each once: several variables may have the same path.
    pub(crate) fn mounts(&self) -> impl Iterator<Item = &StoragePath> {
        let is_first = |(place, one): &(usize, &StoragePath)| {
            self.storages.iter().take(*place).all(|earlier| earlier.path != one.path)
        };
        self.storages.iter().enumerate().filter(is_first).map(|(_, one)| one)
    }

    /// The devices of raw storage on a rabbit.
    pub fn devices_on(&self, rabbit: &str) -> &[Device] {
        self.devices.get(rabbit).map_or(&[], Vec::as_slice)
    }

    /// Names of the rabbits, in the run's order.
    pub fn rabbits(&self) -> impl Iterator<Item = &str> {
        self.placement.iter().map(|rabbit| rabbit.name.as_str())
    }
}
