//! Validates the spec of a NodeContainers.

use std::{collections::BTreeSet, ops::RangeInclusive};

use api::{
    NodeContainers, NodeContainersSpec,
    node_containers::{NodeContainer, NodeContainersNetwork},
};
use containers::{
    JobPackage, check::is_mount_path, mpi::network::address, names::is_label,
    on_rabbit::LONGEST_GRACE, package::JobPackageFault,
};
use kube::ResourceExt;
use storage::desired::{AllowedRoots, MountPoint, MountPointError, ObjectUid};
use thiserror::Error;

use super::{
    global_lustre,
    step::{ConfigFiles, KeyFiles},
};

/// Default seconds between SIGTERM and SIGKILL.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// Why the agent rejects a NodeContainers. The creator of the object must replace it by a corrected one: the agent
/// never changes a spec.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ContainerError {
    #[error("metadata.uid {0:?} is not a UUID")]
    Uid(String),
    #[error(
        "spec.userID is {0}, but containers never run as root: set it to the number of another user, 1 or more"
    )]
    Root(i64),
    #[error("spec.groupID is {0}: set it to the number of a group, 0 or more")]
    Group(i64),
    #[error("{field} is {value:?}, {problem}")]
    Field {
        field: String,
        value: String,
        /// The rule that the value breaks, worded so that it can follow the text "field is value, ".
        problem: &'static str,
    },
    #[error("{field} is {value}: use {} to {}", range.start(), range.end())]
    Number {
        field: String,
        value: i64,
        /// Range of the allowed values.
        range: RangeInclusive<i64>,
    },
    #[error("spec.packages[{index}].{fault}")]
    Package {
        /// Index in `spec.packages`.
        index: usize,
        fault: JobPackageFault,
    },
    #[error("spec.storages[{index}]")]
    Storage {
        /// Index in `spec.storages`.
        index: usize,
        #[source]
        source: MountPointError,
    },
}

/// A validated NodeContainers.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    /// `metadata.uid` of the object.
    pub uid: ObjectUid,
    pub spec: NodeContainersSpec,
    pub packages: Vec<JobPackage>,
    /// Ports of the rabbit that podman publishes for the containers.
    pub ports: Vec<u16>,
    /// UDP port of the MPI network and the index of this rabbit's pod in it.
    pub network: Option<(u16, u32)>,
    /// Configuration files, which are read from the API if the rabbit lacks them. `None` if they were not read, or if
    /// the ConfigMap is missing.
    pub files: Option<ConfigFiles>,
    /// MPI keys, which are read from the API if the rabbit lacks them. `None` if they were not read, or if the Secret
    /// is missing.
    pub keys: Option<KeyFiles>,
}

impl Desired {
    /// Validates the spec of an object.
    ///
    /// # Errors
    /// An error that names the field, its value and the rule that the value breaks.
    pub fn from_object(
        object: &NodeContainers,
        roots: &AllowedRoots,
    ) -> Result<Self, ContainerError> {
        let spec = object.spec.clone();
        let uid = uid_of(object)?;
        if spec.user_id < 1 {
            return Err(ContainerError::Root(spec.user_id));
        }
        if spec.group_id < 0 {
            return Err(ContainerError::Group(spec.group_id));
        }
        check("spec.hostname", &spec.hostname, is_label, A_LABEL)?;
        if let Some(hosts) = &spec.hosts {
            for name in hosts.rabbits.iter().chain(&hosts.domains) {
                check("spec.hosts", name, is_host, A_HOST)?;
            }
        }
        for (index, path) in spec.storages.iter().enumerate() {
            let parsed = MountPoint::parse(path, roots);
            parsed.map_err(|source| ContainerError::Storage { index, source })?;
            check("spec.storages", path, |path| !path.contains(':'), "and may have no colon")?;
        }
        let is_allowed = |path: &str| global_lustre::is_allowed_path(path, roots);
        for path in &spec.global_lustre {
            check("spec.globalLustre", path, is_allowed, A_LUSTRE)?;
        }
        for path in &spec.directories {
            check("spec.directories", path, is_allowed, A_DIRECTORY)?;
        }
        let packages = spec.packages.iter().enumerate().map(|(index, package)| {
            JobPackage::parse(package).map_err(|fault| ContainerError::Package { index, fault })
        });
        let packages = packages.collect::<Result<Vec<_>, _>>()?;
        let mut names = BTreeSet::new();
        for package in &packages {
            let is_new = names.insert(&package.name);
            check("spec.packages", &package.name, |_| is_new, "and another has the same name")?;
        }
        let mut shared = BTreeSet::new();
        for name in &spec.empty_dirs {
            check("spec.emptyDirs", name, is_label, A_LABEL)?;
            let is_new = shared.insert(name.as_str());
            check("spec.emptyDirs", name, |_| is_new, "and another has the same name")?;
        }
        let mut names = BTreeSet::new();
        for container in spec.init_containers.iter().chain(&spec.containers) {
            check_container(container)?;
            check_mounts(container, &shared)?;
            let is_new = names.insert(&container.name);
            check("container", &container.name, |_| is_new, "and another has the same name")?;
        }
        let grace = spec.termination_grace_period_seconds;
        check_number("spec.terminationGracePeriodSeconds", grace, 0..=LONGEST_GRACE)?;
        check_number("spec.activeDeadlineSeconds", spec.active_deadline_seconds, 1..=i64::MAX)?;
        check_number("spec.retryLimit", Some(spec.retry_limit), 0..=i64::MAX)?;
        let ports = ports(&spec)?;
        let network = spec.network.as_ref().map(check_network).transpose()?;
        Ok(Self { uid, spec, packages, ports, network, files: None, keys: None })
    }

    /// Returns the number of attempts that the object allows.
    pub(crate) fn attempts(&self) -> i64 {
        self.spec.retry_limit.max(0).saturating_add(1)
    }

    /// Returns the seconds between SIGTERM and SIGKILL.
    pub(crate) fn grace(&self) -> i64 {
        grace(&self.spec)
    }
}

/// Returns the seconds between SIGTERM and SIGKILL.
pub(crate) fn grace(spec: &NodeContainersSpec) -> i64 {
    // The removal of a rejected object uses this value although its spec is not validated, so it is clamped here.
    spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE_SECONDS).clamp(0, LONGEST_GRACE)
}

/// Returns the uid of an object.
///
/// # Errors
/// `metadata.uid` is missing or not a UUID.
pub(crate) fn uid_of(object: &NodeContainers) -> Result<ObjectUid, ContainerError> {
    let uid = object.uid().unwrap_or_default();
    uid.parse().map_err(|_| ContainerError::Uid(uid))
}

const A_LUSTRE: &str = "and must be the absolute path where a Lustre file system of the site is mounted, outside the directories of jobs' storage";
const A_DIRECTORY: &str = "and must be the absolute path of a directory of the site, outside the directories of jobs' storage";
const A_LABEL: &str = "and must have a-z, 0-9 and - and at most 63 characters";
const A_MOUNT_PATH: &str = "and must be an absolute path beneath /, without .. and without a colon";
const A_HOST: &str = "and must be the name of a host";

/// Validates the MPI network and returns its port and this rabbit's index.
fn check_network(network: &NodeContainersNetwork) -> Result<(u16, u32), ContainerError> {
    let port = u16::try_from(network.port).ok().filter(|port| *port > 0);
    let place = u32::try_from(network.place).ok();
    let is_place = |place: &u32| usize::try_from(*place).is_ok_and(|at| at < network.rabbits.len());
    for rabbit in &network.rabbits {
        check("spec.network.rabbits", rabbit, is_host, A_HOST)?;
    }
    let last =
        u32::try_from(network.rabbits.len()).ok().and_then(|count| address(count.checked_sub(1)?));
    let count = network.rabbits.len().to_string();
    check(
        "spec.network.rabbits",
        &count,
        |_| last.is_some(),
        "and must be a count of 1 to 131070",
    )?;
    port.zip(place.filter(is_place)).ok_or_else(|| ContainerError::Field {
        field: "spec.network".to_owned(),
        value: format!("port {}, place {}", network.port, network.place),
        problem: "and must have a port of 1 to 65535 and the index of a rabbit",
    })
}

fn check_container(container: &NodeContainer) -> Result<(), ContainerError> {
    check("container", &container.name, is_label, A_LABEL)?;
    let is_image = |image: &str| !image.is_empty() && !image.starts_with('-');
    let at = format!("container {}: image", container.name);
    check(&at, &container.image, is_image, "and must be the name of an image")?;
    check_number(
        &format!("container {}: cpuMillis", container.name),
        container.cpu_millis,
        1..=i64::MAX,
    )?;
    check_number(
        &format!("container {}: memoryBytes", container.name),
        container.memory_bytes,
        1..=i64::MAX,
    )?;
    for variable in &container.env {
        let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
        let at = format!("container {}: env", container.name);
        check(&at, &variable.name, is_name, "and must be the name of a variable")?;
    }
    Ok(())
}

fn check_mounts(container: &NodeContainer, shared: &BTreeSet<&str>) -> Result<(), ContainerError> {
    for mount in &container.volume_mounts {
        let at = format!("container {}: volumeMounts", container.name);
        let is_there = |name: &str| shared.contains(name);
        check(&at, &mount.name, is_there, "and must be one of spec.emptyDirs")?;
        check(&at, &mount.mount_path, is_mount_path, A_MOUNT_PATH)?;
    }
    Ok(())
}

/// Returns the valid ports of all containers.
fn ports(spec: &NodeContainersSpec) -> Result<Vec<u16>, ContainerError> {
    let container_ports = |container: &NodeContainer| {
        let at = format!("container {}: ports", container.name);
        let port = move |port: &i64| {
            check_number(&at, Some(*port), 1..=65535)?;
            Ok(u16::try_from(*port).unwrap_or(u16::MAX))
        };
        container.ports.iter().map(port).collect::<Result<Vec<u16>, _>>()
    };
    let all = spec.init_containers.iter().chain(&spec.containers).map(container_ports);
    Ok(all.collect::<Result<Vec<_>, _>>()?.concat())
}

/// Checks an optional number.
fn check_number(
    field: &str,
    value: Option<i64>,
    range: RangeInclusive<i64>,
) -> Result<(), ContainerError> {
    match value {
        Some(value) if !range.contains(&value) => {
            Err(ContainerError::Number { field: field.to_owned(), value, range })
        }
        _ => Ok(()),
    }
}

fn check(
    field: &str,
    value: &str,
    is_good: impl FnOnce(&str) -> bool,
    problem: &'static str,
) -> Result<(), ContainerError> {
    if is_good(value) {
        return Ok(());
    }
    Err(ContainerError::Field { field: field.to_owned(), value: value.to_owned(), problem })
}

fn is_host(text: &str) -> bool {
    text.split('.').all(is_label)
}

pub(super) fn is_file(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('.') && !text.contains(['/', '\0'])
}

#[cfg(test)]
pub(crate) mod tests;
