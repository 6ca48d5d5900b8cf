//! Turns steps into podman command lines. Pure.

use std::{collections::BTreeMap, net::IpAddr, path::Path};

use api::node_containers::{ImagePullPolicy, NodeContainer};
use containers::{mpi, nodes};
use storage::observed::DeviceNumber;

use super::{
    observed::{ATTEMPT, CONTAINER, UID},
    step::{Attempt, Container, ContainerName, Pod, PodName},
};

/// Directory in a container with its configuration files.
const DIRECTORY: &str = nodes::DIRECTORY;
/// Directory in a container with its job packages.
const PACKAGES: &str = containers::package::DIRECTORY;
/// Configuration files that a container sees at a second path too: file name and second path.
const SECOND_PATHS: [(&str, &str); 5] = [
    (nodes::PASSWD, "/etc/passwd"),
    (nodes::GROUP, "/etc/group"),
    (nodes::HOSTS, "/etc/hosts"),
    (nodes::HOSTFILE, mpi::HOSTFILE),
    (nodes::DISCOVER_HOSTS, "/etc/mpi/discover_hosts.sh"),
];
/// Maximum size of a container's log; conmon drops the rest.
const LOG_SIZE: &str = "max-size=16mb";

/// Returns the words of `podman pod create`. `addresses` has the IP addresses of the run's other rabbits, by name.
pub(super) fn make_pod(pod: &Pod, addresses: &BTreeMap<String, IpAddr>) -> Vec<String> {
    let namespaces = if pod.shares_processes { "net,ipc,uts,pid" } else { "net,ipc,uts" };
    let mut words = Words::new(["pod", "create"]);
    words.flag("--name", pod.name.to_string());
    words.labels(pod.name);
    words.flag("--hostname", pod.hostname.clone());
    words.flag("--share", namespaces.to_owned());
    if let Some(bytes) = pod.memory.filter(|bytes| *bytes > 0) {
        // Ranks on one rabbit communicate through /dev/shm. The kernel charges the pages of /dev/shm to the container
        // that wrote them, so the containers' memory limits bound its size already.
        words.flag("--shm-size", format!("{bytes}b"));
    }
    if let Some(hosts) = &pod.hosts {
        for rabbit in &hosts.rabbits {
            let own = (*rabbit == pod.hostname).then_some(IpAddr::from([127, 0, 0, 1]));
            let Some(address) = own.or_else(|| addresses.get(rabbit).copied()) else { continue };
            for domain in &hosts.domains {
                words.flag("--add-host", format!("{rabbit}.{domain}:{address}"));
            }
        }
    }
    if pod.has_network && pod.ports.is_empty() {
        // MPI ranks try every address of their host, and other rabbits cannot reach an address in podman's own network.
        // So the pod gets no network of podman.
        words.flag("--network", "none".to_owned());
    }
    for port in &pod.ports {
        words.flag("--publish", format!("{port}:{port}"));
    }
    words.0
}

/// Paths and devices of the rabbit that a container gets.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContainerPaths<'a> {
    /// Directory of the container's configuration files.
    pub(super) files: &'a Path,
    /// Names of the files in `files`.
    pub(super) names: &'a [String],
    /// Directory of the container's MPI keys.
    pub(super) keys: &'a Path,
    /// The podhelper program, which uses the keys.
    pub(super) podhelper: &'a Path,
    /// Directory that contains the directories which the containers of an attempt share.
    pub(super) volumes: &'a Path,
    /// Directory of all job packages.
    pub(super) packages: &'a Path,
    /// Block devices of the container's raw storage.
    pub(super) devices: &'a [DeviceNumber],
}

/// Returns the words of `podman create`.
pub(super) fn make_container(container: &Container, paths: ContainerPaths<'_>) -> Vec<String> {
    let spec = &container.spec;
    let mut words = Words::new(["create"]);
    words.identity(container);
    words.flag("--cap-drop", "all".to_owned());
    words.flag("--security-opt", "no-new-privileges".to_owned());
    words.flag("--log-driver", "k8s-file".to_owned());
    words.flag("--log-opt", LOG_SIZE.to_owned());
    let pull = match spec.image_pull_policy {
        ImagePullPolicy::Always => "always",
        ImagePullPolicy::Never => "never",
        ImagePullPolicy::IfNotPresent | ImagePullPolicy::Other(_) => "missing",
    };
    words.flag("--pull", pull.to_owned());
    words.volumes(container, paths);
    for device in paths.devices {
        // The device control group allows only the devices that the option names, whatever mode the device node has.
        words.flag("--device-cgroup-rule", format!("b {device} rw"));
    }
    for variable in &spec.env {
        words.flag("--env", format!("{}={}", variable.name, variable.value));
    }
    if !spec.working_dir.is_empty() {
        words.flag("--workdir", spec.working_dir.clone());
    }
    words.limits(spec);
    if !spec.command.is_empty() {
        let program = serde_json::to_string(&spec.command).expect("words are JSON");
        words.flag("--entrypoint", program);
    }
    words.0.push(spec.image.clone());
    words.0.extend(spec.args.iter().cloned());
    words.0
}

/// Returns the words of `podman start`.
pub(super) fn start(name: &ContainerName) -> Vec<String> {
    Words::new(["start", &name.to_string()]).0
}

/// Returns the words of `podman pod stop`.
pub(super) fn stop(attempt: &Attempt) -> Vec<String> {
    Words::new(["pod", "stop", "--time", &attempt.grace.to_string(), &attempt.pod.to_string()]).0
}

/// Returns the words of `podman pod rm`.
pub(super) fn remove(attempt: &Attempt) -> Vec<String> {
    let grace = attempt.grace.to_string();
    Words::new(["pod", "rm", "--force", "--time", &grace, &attempt.pod.to_string()]).0
}

/// The words of one podman command line.
struct Words(Vec<String>);

impl Words {
    fn new<const N: usize>(words: [&str; N]) -> Self {
        Self(words.map(str::to_owned).to_vec())
    }

    fn flag(&mut self, name: &str, value: String) {
        self.0.extend([name.to_owned(), value]);
    }

    /// Adds the labels by which the agent later finds the object's pods and containers.
    fn labels(&mut self, pod: PodName) {
        self.flag("--label", format!("{UID}={}", pod.uid));
        self.flag("--label", format!("{ATTEMPT}={}", pod.attempt));
    }

    fn identity(&mut self, container: &Container) {
        let name = &container.name;
        self.flag("--pod", name.pod.to_string());
        self.flag("--name", name.to_string());
        self.labels(name.pod);
        self.flag("--label", format!("{CONTAINER}={}", name.container));
        self.flag("--user", format!("{}:{}", container.user, container.group));
    }

    fn volumes(&mut self, container: &Container, paths: ContainerPaths<'_>) {
        let ContainerPaths { files, names, keys, podhelper, volumes, packages, .. } = paths;
        // `rslave`: an allocation that is mounted again becomes visible in a running container.
        for path in &container.storages {
            self.flag("--volume", format!("{path}:{path}:rw,rslave"));
        }
        // `bind`, not `rbind`: mounts inside the site's file systems stay hidden.
        for path in container.global_lustre.iter().chain(&container.directories) {
            self.flag("--volume", format!("{path}:{path}:rw,bind"));
        }
        for mount in &container.spec.volume_mounts {
            let from = volumes.join(&mount.name);
            let how = if mount.read_only { "ro" } else { "rw" };
            self.flag("--volume", format!("{}:{}:{how}", from.display(), mount.mount_path));
        }
        let mut read_only = |from: &Path, to: &str| {
            self.flag("--volume", format!("{}:{to}:ro", from.display()));
        };
        if !names.is_empty() {
            read_only(files, DIRECTORY);
        }
        for package in &container.packages {
            let content = packages::content(packages, package);
            read_only(&content, &format!("{PACKAGES}/{}", package.name));
        }
        let has = |name: &str| names.iter().any(|file| file == name);
        for (name, path) in SECOND_PATHS.into_iter().filter(|(name, _)| has(name)) {
            read_only(&files.join(name), path);
        }
        if container.has_keys {
            read_only(keys, mpi::KEYS);
            // podhelper behaves according to the name by which it is called.
            read_only(podhelper, mpi::PODHELPER);
            read_only(podhelper, mpi::AGENT);
        }
    }

    fn limits(&mut self, spec: &NodeContainer) {
        if let Some(millis) = spec.cpu_millis {
            self.flag("--cpus", format!("{}.{:03}", millis / 1000, millis % 1000));
        }
        if let Some(bytes) = spec.memory_bytes {
            self.flag("--memory", bytes.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
