//! Steps as podman's command lines. Pure.

use std::{collections::BTreeMap, net::IpAddr, path::Path};

use api::node_containers::{ImagePullPolicy, NodeContainer};
use containers::{mpi, nodes};
use storage::observed::DeviceNumber;

use super::{
    observed::{ATTEMPT, CONTAINER, UID},
    step::{Attempt, Container, Name, Pod, PodName},
};

/// Where files of the configuration are in a container.
const DIRECTORY: &str = nodes::DIRECTORY;
/// Where packages are.
const PACKAGES: &str = containers::package::DIRECTORY;
/// What of them is elsewhere too.
const ELSEWHERE: [(&str, &str); 5] = [
    (nodes::PASSWD, "/etc/passwd"),
    (nodes::GROUP, "/etc/group"),
    (nodes::HOSTS, "/etc/hosts"),
    (nodes::HOSTFILE, mpi::HOSTFILE),
    (nodes::DISCOVER_HOSTS, "/etc/mpi/discover_hosts.sh"),
];
/// Bytes that conmon keeps of a container's log.
const LOG_SIZE: &str = "max-size=16mb";

/// `podman pod create`. Other rabbits' names have these addresses.
pub(super) fn make_pod(pod: &Pod, addresses: &BTreeMap<String, IpAddr>) -> Vec<String> {
    let namespaces = if pod.shares_processes { "net,ipc,uts,pid" } else { "net,ipc,uts" };
    let mut words = Words::of(["pod", "create"]);
    words.flag("--name", pod.name.to_string());
    words.labels(pod.name);
    words.flag("--hostname", pod.hostname.clone());
    words.flag("--share", namespaces.to_owned());
    if let Some(bytes) = pod.memory.filter(|bytes| *bytes > 0) {
        // Ranks of one rabbit talk by /dev/shm. What is there counts for whoever wrote it, so a limit of memory is one of it too.
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
        // Ranks try every address that their hosts tell them, and in podman's own network no other rabbit answers.
        words.flag("--network", "none".to_owned());
    }
    for port in &pod.ports {
        words.flag("--publish", format!("{port}:{port}"));
    }
    words.0
}

/// What containers find of their rabbit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places<'a> {
    /// Directory of the files of their configuration.
    pub(super) files: &'a Path,
    /// Names of those that are there.
    pub(super) names: &'a [String],
    /// Directory of their keys.
    pub(super) keys: &'a Path,
    /// The program that uses these.
    pub(super) podhelper: &'a Path,
    /// Directory of those that the containers of their attempt share.
    pub(super) volumes: &'a Path,
    /// Directory of the packages of all containers.
    pub(super) packages: &'a Path,
    /// The block devices of their raw storage.
    pub(super) devices: &'a [DeviceNumber],
}

/// `podman create`.
pub(super) fn make(container: &Container, places: Places<'_>) -> Vec<String> {
    let what = &container.what;
    let mut words = Words::of(["create"]);
    words.identity(container);
    words.flag("--cap-drop", "all".to_owned());
    words.flag("--security-opt", "no-new-privileges".to_owned());
    words.flag("--log-driver", "k8s-file".to_owned());
    words.flag("--log-opt", LOG_SIZE.to_owned());
    let pull = match what.image_pull_policy {
        ImagePullPolicy::Always => "always",
        ImagePullPolicy::Never => "never",
        ImagePullPolicy::IfNotPresent | ImagePullPolicy::Other(_) => "missing",
    };
    words.flag("--pull", pull.to_owned());
    words.volumes(container, places);
    for device in places.devices {
        // A control group lets nobody open a device that it does not name, whatever its mode.
        words.flag("--device-cgroup-rule", format!("b {device} rw"));
    }
    for variable in &what.env {
        words.flag("--env", format!("{}={}", variable.name, variable.value));
    }
    if !what.working_dir.is_empty() {
        words.flag("--workdir", what.working_dir.clone());
    }
    words.limits(what);
    if !what.command.is_empty() {
        let program = serde_json::to_string(&what.command).expect("words are JSON");
        words.flag("--entrypoint", program);
    }
    words.0.push(what.image.clone());
    words.0.extend(what.args.iter().cloned());
    words.0
}

/// `podman start`.
pub(super) fn start(name: &Name) -> Vec<String> {
    Words::of(["start", &name.to_string()]).0
}

/// `podman pod stop`.
pub(super) fn stop(attempt: &Attempt) -> Vec<String> {
    Words::of(["pod", "stop", "--time", &attempt.grace.to_string(), &attempt.pod.to_string()]).0
}

/// `podman pod rm`.
pub(super) fn remove(attempt: &Attempt) -> Vec<String> {
    let grace = attempt.grace.to_string();
    Words::of(["pod", "rm", "--force", "--time", &grace, &attempt.pod.to_string()]).0
}

struct Words(Vec<String>);

impl Words {
    fn of<const N: usize>(words: [&str; N]) -> Self {
        Self(words.map(str::to_owned).to_vec())
    }

    fn flag(&mut self, name: &str, value: String) {
        self.0.extend([name.to_owned(), value]);
    }

    /// By these labels the agent finds the object's pods and containers again.
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

    fn volumes(&mut self, container: &Container, places: Places<'_>) {
        let Places { files, names, keys, podhelper, volumes, packages, .. } = places;
        // An allocation that is mounted anew appears in a container that runs.
        for path in &container.storages {
            self.flag("--volume", format!("{path}:{path}:rw,rslave"));
        }
        // That file system alone, without what is mounted in it.
        for path in &container.global_lustre {
            self.flag("--volume", format!("{path}:{path}:rw,bind"));
        }
        for mount in &container.what.volume_mounts {
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
        for (name, path) in ELSEWHERE.into_iter().filter(|(name, _)| has(name)) {
            read_only(&files.join(name), path);
        }
        if container.has_keys {
            read_only(keys, mpi::KEYS);
            // One program, which goes by the name that it is called by.
            read_only(podhelper, mpi::PODHELPER);
            read_only(podhelper, mpi::AGENT);
        }
    }

    fn limits(&mut self, what: &NodeContainer) {
        if let Some(millis) = what.cpu_millis {
            self.flag("--cpus", format!("{}.{:03}", millis / 1000, millis % 1000));
        }
        if let Some(bytes) = what.memory_bytes {
            self.flag("--memory", bytes.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
