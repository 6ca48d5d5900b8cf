//! Implements [`Host`] with podman and a directory for files.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Seek, SeekFrom},
    net::{IpAddr, ToSocketAddrs},
    path::{Path, PathBuf},
    time::Duration,
};

use storage::{desired::ObjectUid, observed::DeviceNumber};
use storage_linux::{devices_beneath, kind_at};

use super::{
    args::ContainerConfig,
    arguments::{self, ContainerPaths},
    global_lustre,
    host::{Host, HostError},
    log,
    observed::{Logs, Observed, UID, by_attempt, container_ids, parse_inspected, parse_pods},
    step::{Container, Pod, PodName, Step},
};

mod files;
mod network;
mod program;

use self::{network::is_connected, program::Podman};

/// Runs the containers of a rabbit with podman.
#[derive(Debug)]
pub struct PodmanHost {
    podman: Podman,
    /// Longest run of a podman command that neither fetches an image nor waits for containers to end.
    deadline: Duration,
    /// Longest time that podman may take to fetch an image.
    pull: Duration,
    /// Path of podhelper, the program that starts MPI ranks.
    podhelper: PathBuf,
    /// Directory that has one subdirectory for each NodeContainers.
    directory: PathBuf,
    packages: PathBuf,
}

impl PodmanHost {
    /// Returns a [`Host`] with this configuration.
    #[must_use]
    pub fn new(config: &ContainerConfig) -> Self {
        Self {
            podman: Podman::new(&config.program),
            deadline: config.deadline,
            pull: config.pull,
            podhelper: config.podhelper.clone(),
            directory: config.files.clone(),
            packages: config.packages.clone(),
        }
    }

    /// Returns the directory of an object's files, keys and shared directories.
    fn object_directory(&self, uid: ObjectUid) -> PathBuf {
        self.directory.join(uid.to_string())
    }

    fn files(&self, uid: ObjectUid) -> PathBuf {
        self.object_directory(uid).join("files")
    }

    fn keys(&self, uid: ObjectUid) -> PathBuf {
        self.object_directory(uid).join("keys")
    }

    /// Returns the directory that has one subdirectory for each attempt of an object, with
    /// the attempt's shared directories.
    fn volumes(&self, uid: ObjectUid) -> PathBuf {
        self.object_directory(uid).join("volumes")
    }

    fn volumes_of(&self, pod: PodName) -> PathBuf {
        self.volumes(pod.uid).join(pod.attempt.to_string())
    }

    fn make_container(&self, step: &Step, container: &Container) -> Result<(), HostError> {
        if container.has_keys && !self.podhelper.is_file() {
            return Err(HostError::NoPodhelper { path: self.podhelper.clone() });
        }
        let uid = container.name.pod.uid;
        let (files, keys) = (self.files(uid), self.keys(uid));
        let (names, devices) = (files::list(&files)?, devices(&container.storages)?);
        let paths = ContainerPaths {
            files: &files,
            names: &names,
            keys: &keys,
            podhelper: &self.podhelper,
            volumes: &self.volumes_of(container.name.pod),
            packages: &self.packages,
            devices: &devices,
        };
        let deadline =
            container.pull_seconds.map_or(self.pull, |count| seconds(count).min(self.pull));
        self.run(step, &arguments::make_container(container, paths), deadline)
    }

    fn run(&self, step: &Step, words: &[String], deadline: Duration) -> Result<(), HostError> {
        Ok(self.podman.run(&step.to_string(), words, deadline).map(drop)?)
    }
}

impl Host for PodmanHost {
    fn observe(&self, uid: ObjectUid, logs: Logs) -> Result<Observed, HostError> {
        let output = |what: &str, words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            self.podman.run(what, &words, self.deadline)
        };
        let label = format!("label={UID}={uid}");
        let pods = parse_pods(&output(
            "list pods",
            &["pod", "ps", "--filter", &label, "--format", "json"],
        )?)?;
        let ids = container_ids(&pods);
        let mut inspect = vec!["container", "inspect"];
        inspect.extend(ids.iter().map(String::as_str));
        let inspected = match &ids[..] {
            [] => Vec::new(),
            _ => parse_inspected(&output("inspect containers", &inspect)?)?,
        };
        let volumes = files::list(&self.volumes(uid))?;
        let read = |path: &str| read_log_end(Path::new(path));
        Ok(Observed {
            has_directory: self.object_directory(uid).exists(),
            has_files: self.files(uid).exists(),
            has_keys: self.keys(uid).exists(),
            volumes: volumes.iter().filter_map(|name| name.parse().ok()).collect(),
            attempts: by_attempt(&pods, &inspected, logs, read, is_connected)?,
        })
    }

    fn apply(&self, step: &Step) -> Result<(), HostError> {
        match step {
            Step::WriteFiles(files) => files::write(&self.files(files.uid), files),
            Step::WriteKeys(keys) => files::write_keys(&self.keys(keys.uid), keys),
            Step::RemoveKeys(uid) => files::remove(&self.keys(*uid)),
            Step::MakeVolumes(volumes) => {
                files::make_volumes(&self.volumes_of(volumes.pod), volumes)
            }
            Step::RemoveVolumes(pod) => {
                let path = self.volumes_of(*pod);
                with_path(&path, ::files::remove_tree(&path))
            }
            Step::Connect(network) => self.connect(network),
            Step::MakePod(pod) => {
                let words = arguments::make_pod(pod, &addresses(pod)?);
                self.run(step, &words, self.deadline)
            }
            Step::Make(container) => self.make_container(step, container),
            Step::Start(name) => self.run(step, &arguments::start(name), self.deadline),
            Step::Stop(attempt) => {
                let deadline = self.deadline + seconds(attempt.grace);
                self.run(step, &arguments::stop(attempt), deadline)
            }
            Step::Remove(attempt) => {
                let deadline = self.deadline + seconds(attempt.grace);
                self.run(step, &arguments::remove(attempt), deadline)
            }
            Step::RemoveFiles(uid) => {
                let path = self.object_directory(*uid);
                with_path(&path, ::files::remove_tree(&path))
            }
        }
    }

    fn check_lustre(&self, places: &[String]) -> Result<(), HostError> {
        global_lustre::check(places, kind_at)
    }
}

fn seconds(count: i64) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or(0))
}

/// Returns the block devices beneath the paths of raw storage.
fn devices(storages: &[String]) -> Result<Vec<DeviceNumber>, HostError> {
    let devices_of = |path: &String| {
        let path = Path::new(path);
        with_path(path, devices_beneath(path))
    };
    Ok(storages.iter().map(devices_of).collect::<Result<Vec<_>, _>>()?.concat())
}

/// Resolves the names of the other rabbits of a run.
fn addresses(pod: &Pod) -> Result<BTreeMap<String, IpAddr>, HostError> {
    let all = pod.hosts.iter().flat_map(|hosts| &hosts.rabbits);
    let address = |rabbit: &String| {
        let mut found = (rabbit.as_str(), 0).to_socket_addrs().ok()?;
        found.next().map(|address| address.ip())
    };
    let known = all.filter(|rabbit| **rabbit != pod.hostname).map(|rabbit| match address(rabbit) {
        Some(found) => Ok((rabbit.clone(), found)),
        None => Err(HostError::NoAddress { rabbit: rabbit.clone() }),
    });
    known.collect()
}

fn with_path<T>(path: &Path, result: io::Result<T>) -> Result<T, HostError> {
    result.map_err(|source| HostError::File { path: path.to_owned(), source })
}

/// Returns the end of a log; an empty text if the log cannot be read.
fn read_log_end(path: &Path) -> String {
    let most = 2 * u64::try_from(log::MAX_BYTES).unwrap_or(u64::MAX);
    let read = || -> io::Result<(Vec<u8>, bool)> {
        let mut file = fs::File::open(path)?;
        let start = file.metadata()?.len().saturating_sub(most);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok((bytes, start > 0))
    };
    let (bytes, is_cut) = read().unwrap_or_default();
    log::decode(&String::from_utf8_lossy(&bytes), is_cut)
}
