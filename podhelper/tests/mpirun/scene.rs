//! Starts pods in namespaces of this machine, from the plan's Jobs and ConfigMap, as a kubelet would. The pods'
//! directories are beneath a temporary directory.

mod container;
mod files;
mod host;
mod plan;

use std::{path::PathBuf, process::Child};

use k8s_openapi::api::{batch::v1::Job, core::v1::Container};
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

pub(crate) use self::container::{Outcome, result_of, until};
use self::{
    container::{Running, ids, only_child_of, spawn},
    host::{API, Host, Network},
    plan::{init_containers, planned, pod, profile},
};

/// User and group ids of a user who has nothing to do with the job.
const STRANGER: [i64; 2] = [2000, 2000];

#[derive(Debug)]
pub(crate) struct Scene {
    directory: tempfile::TempDir,
    launcher: (Host, Job),
    workers: Vec<(Host, Job)>,
    /// Each worker's container, by the index of its host.
    running: Vec<Option<Child>>,
    network: Network,
}

impl Scene {
    /// Creates the hosts and pods of `workers` workers. Each worker has `slots` slots, and
    /// must answer within `seconds`.
    pub(crate) fn new(workers: usize, slots: i64, seconds: i64) -> Self {
        Self::with(workers, &json!({"slotsPerWorker": slots}), seconds)
    }

    /// Creates a scene whose profile has these fields in its `mpiSpec`.
    pub(crate) fn with(workers: usize, mpi: &Value, seconds: i64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (files, launcher, jobs) = planned(&profile(mpi, seconds), workers);
        let network = Network::new();
        let hosts: Vec<Host> = (0..=workers).map(|place| network.plug_in(place)).collect();
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

    /// Starts a worker's pod. Does not wait until the worker listens.
    pub(crate) fn start_worker(&mut self, place: usize) {
        let (host, job) = &self.workers[place];
        for container in init_containers(job) {
            let outcome = result_of(self.start(host, container, None));
            assert!(outcome.status.success(), "{outcome:?}");
        }
        let container = &pod(job).containers[0];
        // In a container, the first process is process 1 of a process namespace.
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

    /// Sends SIGTERM to a worker's pod, as a kubelet does, and returns the container's exit code.
    pub(crate) fn terminate_worker(&mut self, place: usize) -> Option<i32> {
        let mut child = self.running[place].take().unwrap();
        kill(only_child_of(child.id()), Signal::SIGTERM).unwrap();
        child.wait().unwrap().code()
    }

    /// Cuts a worker's host off the network, as if the host had lost its power.
    pub(crate) fn cut_worker(&self, place: usize) {
        self.network.cut(place + 1);
    }

    /// Runs the containers of the launcher's pod from first to last, with `words` as the launcher's command. Fails with
    /// the outcome of an init container that failed.
    pub(crate) fn launch(&mut self, words: &[&str]) -> Result<Outcome, Outcome> {
        let containers: Vec<Container> = init_containers(&self.launcher.1).cloned().collect();
        for container in containers {
            let running = self.start(&self.launcher.0, &container, None);
            let outcome = self.wait_for(running);
            if !outcome.status.success() {
                return Err(outcome);
            }
        }
        let running = self.begin(words);
        Ok(self.wait_for(running))
    }

    /// Runs only the launcher's own container, with another command than the plan's.
    pub(crate) fn main(&self, words: &[&str]) -> Outcome {
        result_of(self.begin(words))
    }

    /// Starts the launcher's own container, with another command than the plan's.
    pub(crate) fn begin(&self, words: &[&str]) -> Running {
        let (host, job) = &self.launcher;
        self.start(host, &pod(job).containers[0], Some(words))
    }

    /// Runs the launcher's own container as a user of the machine who has nothing to do with the job.
    pub(crate) fn main_by_stranger(&self, words: &[&str]) -> Outcome {
        let (host, job) = &self.launcher;
        let command = self.as_user(host.within(), STRANGER, &pod(job).containers[0], Some(words));
        result_of(spawn(command))
    }

    /// Returns the number of calls to the Kubernetes API by all pods.
    pub(crate) fn api_calls(&self) -> usize {
        self.network.api_calls()
    }

    /// Calls the Kubernetes API from a worker's pod.
    pub(crate) fn call_the_api(&self, place: usize) {
        let call = format!("exec 3<>/dev/tcp/{API}/443 && read -r <&3 || true");
        self.workers[place].0.run(&["bash", "-c", &call]);
    }

    /// Returns a path beneath the pods' directories.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// Waits for a container's end. Fails if a worker that was started ends meanwhile.
    fn wait_for(&mut self, mut container: Running) -> Outcome {
        until("the container's end", || {
            for (place, worker) in self.running.iter_mut().enumerate() {
                let ended = worker.as_mut().and_then(|child| child.try_wait().unwrap());
                assert!(ended.is_none(), "worker {place} ended: {ended:?}");
            }
            container.child.try_wait().unwrap()
        });
        result_of(container)
    }

    fn start(&self, host: &Host, container: &Container, words: Option<&[&str]>) -> Running {
        spawn(self.as_user(host.within(), ids(container), container, words))
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
