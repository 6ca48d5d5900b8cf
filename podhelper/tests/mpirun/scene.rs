//! Pods as a kubelet starts them, in namespaces of this machine: what the plan's Jobs and ConfigMap say, with the directories of
//! pods beneath a temporary one.

mod container;
mod files;
mod host;
mod plan;

use std::{path::PathBuf, process::Child};

use k8s_openapi::api::{batch::v1::Job, core::v1::Container};
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

pub(crate) use self::container::{Told, told, until};
use self::{
    container::{Running, ids, only_child_of, running},
    host::{API, Host, Network},
    plan::{first, planned, pod, profile},
};

/// A user of the machine who has nothing to do with the job.
const STRANGER: [i64; 2] = [2000, 2000];

#[derive(Debug)]
pub(crate) struct Scene {
    directory: tempfile::TempDir,
    launcher: (Host, Job),
    workers: Vec<(Host, Job)>,
    /// A worker's container, by the place of its host.
    running: Vec<Option<Child>>,
    network: Network,
}

impl Scene {
    /// Hosts, and the pods of so many workers. Each has so many slots, and must answer in so many seconds.
    pub(crate) fn new(workers: usize, slots: i64, seconds: i64) -> Self {
        Self::with(workers, &json!({"slotsPerWorker": slots}), seconds)
    }

    /// The same, with these fields of the profile's `mpiSpec`.
    pub(crate) fn with(workers: usize, mpi: &Value, seconds: i64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (files, launcher, jobs) = planned(&profile(mpi, seconds), workers);
        let network = Network::new();
        let hosts: Vec<Host> = (0..=workers).map(|place| network.plugged(place)).collect();
        let mut hosts = hosts.into_iter();
        let launcher = (hosts.next().unwrap(), launcher);
        let workers: Vec<_> = hosts.zip(jobs).collect();
        let running = workers.iter().map(|_| None).collect();
        let scene = Self { directory, launcher, workers, running, network };
        scene.write(&files);
        scene.take_other_keys();
        scene.name_hosts();
        scene
    }

    fn pods(&self) -> impl Iterator<Item = &(Host, Job)> {
        std::iter::once(&self.launcher).chain(&self.workers)
    }

    pub(crate) fn start_workers(&mut self) {
        (0..self.workers.len()).for_each(|place| self.start_worker(place));
    }

    /// Starts a worker's pod; whether it listens is the launcher's business.
    pub(crate) fn start_worker(&mut self, place: usize) {
        let (host, job) = &self.workers[place];
        for container in first(job) {
            let told = told(self.begun(host, container, None));
            assert!(told.status.success(), "{told:?}");
        }
        let container = &pod(job).containers[0];
        // The first process of a container is that of a namespace of processes.
        let mut command = host.within();
        command.args(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        let child = self.as_user(command, ids(container), container, None).spawn().unwrap();
        self.running[place] = Some(child);
    }

    pub(crate) fn stop_worker(&mut self, place: usize) {
        let mut child = self.running[place].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Tells a worker's pod to end, as a kubelet does; how its container ended by itself.
    pub(crate) fn terminate_worker(&mut self, place: usize) -> Option<i32> {
        let mut child = self.running[place].take().unwrap();
        kill(only_child_of(child.id()), Signal::SIGTERM).unwrap();
        child.wait().unwrap().code()
    }

    /// Takes a worker's host off the network, as one that lost its power.
    pub(crate) fn cut_worker(&self, place: usize) {
        self.network.cut(place + 1);
    }

    /// The launcher's pod from its first container to its last, with another command; what the first said that failed.
    pub(crate) fn launch(&mut self, words: &[&str]) -> Result<Told, Told> {
        let containers: Vec<Container> = first(&self.launcher.1).cloned().collect();
        for container in containers {
            let running = self.begun(&self.launcher.0, &container, None);
            let told = self.watched(running);
            if !told.status.success() {
                return Err(told);
            }
        }
        let running = self.begin(words);
        Ok(self.watched(running))
    }

    /// The launcher's own container alone, with another command.
    pub(crate) fn main(&self, words: &[&str]) -> Told {
        told(self.begin(words))
    }

    /// Starts the launcher's own container, with another command.
    pub(crate) fn begin(&self, words: &[&str]) -> Running {
        let (host, job) = &self.launcher;
        self.begun(host, &pod(job).containers[0], Some(words))
    }

    /// The same by another user of the machine.
    pub(crate) fn main_by_stranger(&self, words: &[&str]) -> Told {
        let (host, job) = &self.launcher;
        let command = self.as_user(host.within(), STRANGER, &pod(job).containers[0], Some(words));
        told(running(command))
    }

    /// How often a pod called the Kubernetes API.
    pub(crate) fn api_calls(&self) -> usize {
        self.network.api_calls()
    }

    /// Calls it from a worker's pod.
    pub(crate) fn call_the_api(&self, place: usize) {
        let call = format!("exec 3<>/dev/tcp/{API}/443 && read -r <&3 || true");
        self.workers[place].0.run(&["bash", "-c", &call]);
    }

    /// A path beneath the pods' directories.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// Waits for a container's end, while every worker that was started has to run.
    fn watched(&mut self, mut container: Running) -> Told {
        until("the container's end", || {
            for (place, worker) in self.running.iter_mut().enumerate() {
                let ended = worker.as_mut().and_then(|child| child.try_wait().unwrap());
                assert!(ended.is_none(), "worker {place} ended: {ended:?}");
            }
            container.child.try_wait().unwrap()
        });
        told(container)
    }

    fn begun(&self, host: &Host, container: &Container, words: Option<&[&str]>) -> Running {
        running(self.as_user(host.within(), ids(container), container, words))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for child in self.running.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
