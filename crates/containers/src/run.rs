//! The input from which the objects of one directive's containers are made.

use std::collections::BTreeMap;

use api::{NnfContainerProfileData, node_containers::PackagePath};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::mpi::Attempt;

/// The containers of one directive, on all of its rabbits.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// Name of the workflow.
    pub workflow: &'a str,
    /// Name of the run's Service. The names of the run's hosts and Jobs begin with it.
    pub service: &'a str,
    /// Name of the ConfigMap; names of other objects of the directive contain it.
    pub name: &'a str,
    /// Namespace, labels and owner of all objects.
    pub metadata: ObjectMeta,
    /// The uid of the user that the containers run as.
    pub user: i64,
    /// The gid of the group that the containers run as.
    pub group: i64,
    /// The profile with the containers.
    pub profile: &'a NnfContainerProfileData,
    /// Storages that the containers see.
    pub storages: &'a [StoragePath],
    /// Paths of the job packages, by rabbit.
    pub packages: &'a BTreeMap<String, Vec<PackagePath>>,
    /// The devices of raw storage by rabbit, where Kubernetes runs the containers.
    pub devices: &'a BTreeMap<String, Vec<Device>>,
    /// The rabbits that run the containers.
    pub placement: &'a [Rabbit],
    /// Ports of the containers. They are the same on every rabbit, because a compute gets a single list of ports.
    pub ports: &'a [u16],
    /// UDP port of MPI's own network, on sites where Kubernetes provides no network.
    pub network_port: Option<u16>,
    /// The attempt of the run; `None` for a run without MPI.
    pub attempt: Option<&'a Attempt>,
    /// The domain of the cluster, such as `cluster.local`.
    pub cluster_domain: &'a str,
}

/// A storage that containers see at the path that it has on their rabbit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoragePath {
    /// The variable whose value is the path, such as `DW_JOB_scratch`.
    pub variable: String,
    /// Path of the directory, on the rabbit and in the container.
    pub path: String,
    /// Who mounts the storage on the rabbit.
    pub source: StorageSource,
}

/// Who mounts a storage on a rabbit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageSource {
    /// The rabbit's agent, for the job.
    Rabbit,
    /// The site: the storage is a global Lustre, which the rabbit has mounted anyway. A pod gets this file system by
    /// the PersistentVolumeClaim `claim`.
    Global { claim: String },
    /// The site, at the same path on every rabbit. A pod gets the rabbit's directory.
    Directory,
}

/// A block device of raw storage on a rabbit. A pod gets the device by a PersistentVolume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Name of the PersistentVolume and of its PersistentVolumeClaim.
    pub name: String,
    /// Path of the device on the rabbit, beneath the path of its storage.
    pub path: String,
    /// Size in bytes.
    pub capacity: i64,
}

/// A rabbit of a run, with the job's computes that the rabbit serves, in the job's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rabbit {
    pub name: String,
    /// The computes, each with its index among all computes of the job.
    pub computes: Vec<(usize, String)>,
}

impl Run<'_> {
    /// Returns the namespace of all objects.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the storages that containers see. Returns each path once, because several variables may
    /// have the same path.
    pub(crate) fn mounts(&self) -> impl Iterator<Item = &StoragePath> {
        let is_first = |(place, storage): &(usize, &StoragePath)| {
            self.storages.iter().take(*place).all(|earlier| earlier.path != storage.path)
        };
        self.storages.iter().enumerate().filter(is_first).map(|(_, storage)| storage)
    }

    /// Returns the devices of raw storage on a rabbit.
    pub fn devices_on(&self, rabbit: &str) -> &[Device] {
        self.devices.get(rabbit).map_or(&[], Vec::as_slice)
    }

    /// Returns the names of the rabbits, in the run's order.
    pub fn rabbits(&self) -> impl Iterator<Item = &str> {
        self.placement.iter().map(|rabbit| rabbit.name.as_str())
    }
}
