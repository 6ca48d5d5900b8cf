//! What is to run, checked once.

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

/// Seconds between the signal to end and the end, when nobody says.
const GRACE: i64 = 30;

/// What is wrong with a NodeContainers: whoever made it has to make another.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ContainerError {
    #[error("metadata.uid {0:?} is none")]
    Uid(String),
    #[error("spec.userID is {0}: containers run as a user without root's rights; use another")]
    Root(i64),
    #[error("spec.groupID is {0}: use the number of a group")]
    Group(i64),
    #[error("{field} is {value:?}, {problem}")]
    Field {
        /// The field.
        field: String,
        /// Its value.
        value: String,
        /// What is wrong with it, and what may stand there.
        problem: &'static str,
    },
    #[error("{field} is {value}: use {} to {}", range.start(), range.end())]
    Number {
        /// The field.
        field: String,
        /// Its value.
        value: i64,
        /// What may stand there.
        range: RangeInclusive<i64>,
    },
    #[error("spec.packages[{index}].{fault}")]
    Package {
        /// Its place.
        index: usize,
        fault: JobPackageFault,
    },
    #[error("spec.storages[{index}]")]
    Storage {
        /// Its place.
        index: usize,
        #[source]
        source: MountPointError,
    },
}

/// The containers of one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    /// Whose they are.
    pub uid: ObjectUid,
    /// What the object says, which was checked.
    pub spec: NodeContainersSpec,
    /// Its packages.
    pub packages: Vec<JobPackage>,
    /// The ports that the rabbit has open for its containers.
    pub ports: Vec<u16>,
    /// The port and place of its network.
    pub network: Option<(u16, u32)>,
    /// The files of its configuration, where the rabbit lacks them and they are there.
    pub files: Option<ConfigFiles>,
    /// Its keys, where the rabbit lacks them and they are there.
    pub keys: Option<KeyFiles>,
}

impl Desired {
    /// Checks an object.
    ///
    /// # Errors
    /// When it cannot be carried out, or asks for what no container gets.
    pub fn of(object: &NodeContainers, roots: &AllowedRoots) -> Result<Self, ContainerError> {
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
        for path in &spec.global_lustre {
            let is_place = |path: &str| global_lustre::is_place(path, roots);
            check("spec.globalLustre", path, is_place, A_LUSTRE)?;
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
            of_container(container)?;
            of_mounts(container, &shared)?;
            let is_new = names.insert(&container.name);
            check("container", &container.name, |_| is_new, "and another has the same name")?;
        }
        let grace = spec.termination_grace_period_seconds;
        check_number("spec.terminationGracePeriodSeconds", grace, 0..=LONGEST_GRACE)?;
        check_number("spec.activeDeadlineSeconds", spec.active_deadline_seconds, 1..=i64::MAX)?;
        check_number("spec.retryLimit", Some(spec.retry_limit), 0..=i64::MAX)?;
        let ports = ports(&spec)?;
        let network = spec.network.as_ref().map(network).transpose()?;
        Ok(Self { uid, spec, packages, ports, network, files: None, keys: None })
    }

    /// How many attempts there are.
    pub(crate) fn attempts(&self) -> i64 {
        self.spec.retry_limit.max(0).saturating_add(1)
    }

    /// Seconds between the signal to end and the end.
    pub(crate) fn grace(&self) -> i64 {
        grace(&self.spec)
    }
}

/// Seconds between the signal to end and the end.
pub(crate) fn grace(spec: &NodeContainersSpec) -> i64 {
    // An object that is refused is removed all the same.
    spec.termination_grace_period_seconds.unwrap_or(GRACE).clamp(0, LONGEST_GRACE)
}

/// The uid of an object.
///
/// # Errors
/// When it has none.
pub(crate) fn uid_of(object: &NodeContainers) -> Result<ObjectUid, ContainerError> {
    let uid = object.uid().unwrap_or_default();
    uid.parse().map_err(|_| ContainerError::Uid(uid))
}

const A_LUSTRE: &str = "and must be the whole path where a Lustre of the site is mounted, and away from where jobs' storage is";
const A_LABEL: &str = "and must have a-z, 0-9 and - and at most 63 characters";
const A_MOUNT_PATH: &str = "and must be an absolute path beneath /, without .. and without a colon";
const A_HOST: &str = "and must be the name of a host";

/// The port and place of a network.
fn network(of: &NodeContainersNetwork) -> Result<(u16, u32), ContainerError> {
    let port = u16::try_from(of.port).ok().filter(|port| *port > 0);
    let place = u32::try_from(of.place).ok();
    let is_place = |place: &u32| usize::try_from(*place).is_ok_and(|at| at < of.rabbits.len());
    for rabbit in &of.rabbits {
        check("spec.network.rabbits", rabbit, is_host, A_HOST)?;
    }
    let last =
        u32::try_from(of.rabbits.len()).ok().and_then(|count| address(count.checked_sub(1)?));
    let count = of.rabbits.len().to_string();
    check("spec.network.rabbits", &count, |_| last.is_some(), "and may be 1 to 131070")?;
    port.zip(place.filter(is_place)).ok_or_else(|| ContainerError::Field {
        field: "spec.network".to_owned(),
        value: format!("port {}, place {}", of.port, of.place),
        problem: "and must have a port of 1 to 65535 and the place of a rabbit",
    })
}

fn of_container(of: &NodeContainer) -> Result<(), ContainerError> {
    check("container", &of.name, is_label, A_LABEL)?;
    let is_image = |image: &str| !image.is_empty() && !image.starts_with('-');
    let at = format!("container {}: image", of.name);
    check(&at, &of.image, is_image, "and must be the name of an image")?;
    check_number(&format!("container {}: cpuMillis", of.name), of.cpu_millis, 1..=i64::MAX)?;
    check_number(&format!("container {}: memoryBytes", of.name), of.memory_bytes, 1..=i64::MAX)?;
    for variable in &of.env {
        let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
        let at = format!("container {}: env", of.name);
        check(&at, &variable.name, is_name, "and must be the name of a variable")?;
    }
    Ok(())
}

fn of_mounts(of: &NodeContainer, shared: &BTreeSet<&str>) -> Result<(), ContainerError> {
    for mount in &of.volume_mounts {
        let at = format!("container {}: volumeMounts", of.name);
        let is_there = |name: &str| shared.contains(name);
        check(&at, &mount.name, is_there, "and must be one of spec.emptyDirs")?;
        check(&at, &mount.mount_path, is_mount_path, A_MOUNT_PATH)?;
    }
    Ok(())
}

/// The ports that the rabbit has open for the containers.
fn ports(spec: &NodeContainersSpec) -> Result<Vec<u16>, ContainerError> {
    let of = |container: &NodeContainer| {
        let at = format!("container {}: ports", container.name);
        let port = move |port: &i64| {
            check_number(&at, Some(*port), 1..=65535)?;
            Ok(u16::try_from(*port).unwrap_or(u16::MAX))
        };
        container.ports.iter().map(port).collect::<Result<Vec<u16>, _>>()
    };
    let all = spec.init_containers.iter().chain(&spec.containers).map(of);
    Ok(all.collect::<Result<Vec<_>, _>>()?.concat())
}

/// Checks a number that need not be there.
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
