//! Pods as a kubelet starts them, in namespaces of this machine: what the plan's Jobs and ConfigMap say, with the directories of
//! pods beneath a temporary one.

use std::{
    fs,
    net::TcpListener,
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use api::NnfContainerProfileData;
use containers::{Attempt, Rabbit, Run, nodes, objects};
use k8s_openapi::{
    api::{batch::v1::Job, core::v1::Container},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use nix::sched::{CloneFlags, setns};
use serde_json::{Value, from_value, json};

/// Where pods find the Kubernetes API.
const API: &str = "10.99.0.250";

/// What a container said, and how it ended.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) output: String,
    pub(crate) errors: String,
    pub(crate) status: ExitStatus,
}

/// A host: namespaces of a process that sleeps.
#[derive(Debug)]
struct Host(Child);

impl Host {
    fn new() -> Self {
        let child = command("unshare")
            .args(["--net", "--uts", "--mount", "sleep", "infinity"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        // It is itself the process of the namespaces once it sleeps.
        let name = format!("/proc/{}/comm", child.id());
        while fs::read_to_string(&name).unwrap() != "sleep\n" {
            thread::yield_now();
        }
        Self(child)
    }

    /// A command within, to be completed.
    fn within(&self) -> Command {
        let mut nsenter = command("nsenter");
        nsenter.args(["-t", &self.0.id().to_string(), "-n", "-u", "-m"]);
        nsenter
    }

    fn run(&self, words: &[&str]) {
        let done = self.within().args(words).output().unwrap();
        assert!(done.status.success(), "{words:?}: {done:?}");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Debug)]
pub(crate) struct Scene {
    directory: tempfile::TempDir,
    launcher: (Host, Job),
    workers: Vec<(Host, Job)>,
    /// A worker's container, by the place of its host.
    running: Vec<Option<Child>>,
    api_calls: Arc<AtomicUsize>,
    /// What connects the hosts.
    _switch: Host,
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
        let switch = switch();
        let api_calls = counted(&switch);
        let hosts: Vec<Host> = (0..=workers).map(|place| plugged(&switch, place)).collect();
        let mut hosts = hosts.into_iter();
        let launcher = (hosts.next().unwrap(), launcher);
        let workers: Vec<_> = hosts.zip(jobs).collect();
        let running = workers.iter().map(|_| None).collect();
        let scene = Self { directory, launcher, workers, running, api_calls, _switch: switch };
        scene.write(&files);
        scene
    }

    /// What a kubelet puts into the pods' volumes, and the names that the cluster's DNS resolves.
    fn write(&self, files: &[(String, String)]) {
        let root = self.directory.path();
        for place in ["nnf/bin", "nnf/keys", "nnf/config", "etc/mpi"] {
            fs::create_dir_all(root.join(place)).unwrap();
        }
        open_to_all(root);
        for (name, text) in files {
            fs::write(root.join("nnf/config").join(name), text).unwrap();
            if matches!(name.as_str(), "hostfile" | "discover_hosts.sh") {
                fs::write(root.join("etc/mpi").join(name), text).unwrap();
            }
        }
        self.take_other_keys();
        let mut names = "127.0.0.1 localhost\n".to_owned();
        for (place, (_, job)) in self.pods().enumerate() {
            let name = hostname(job);
            names += &format!("{} {name}.demo.default.svc.cluster.local {name}\n", address(place));
        }
        fs::write(root.join("hosts"), names).unwrap();
        for (host, job) in self.pods() {
            host.run(&["hostname", hostname(job)]);
            for (from, to) in [("hosts", "/etc/hosts"), ("nnf/config/passwd", "/etc/passwd")] {
                host.run(&["mount", "--bind", root.join(from).to_str().unwrap(), to]);
            }
        }
    }

    fn pods(&self) -> impl Iterator<Item = &(Host, Job)> {
        std::iter::once(&self.launcher).chain(&self.workers)
    }

    /// New keys, which those have that start from now on.
    pub(crate) fn take_other_keys(&self) {
        for (name, text) in podhelper::keys::make().unwrap() {
            fs::write(self.directory.path().join("nnf/keys").join(name), text).unwrap();
        }
    }

    pub(crate) fn start_workers(&mut self) {
        (0..self.workers.len()).for_each(|place| self.start_worker(place));
    }

    /// Starts a worker's pod; whether it listens is the launcher's business.
    pub(crate) fn start_worker(&mut self, place: usize) {
        let (host, job) = &self.workers[place];
        for container in first(job) {
            let told = self.container(host, container, None);
            assert!(told.status.success(), "{told:?}");
        }
        let container = &pod(job).containers[0];
        // The first process of a container is that of a namespace of processes.
        let mut command = host.within();
        command.args(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        let child = self.as_user(command, container, None).spawn().unwrap();
        self.running[place] = Some(child);
    }

    pub(crate) fn stop_worker(&mut self, place: usize) {
        let mut child = self.running[place].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// The launcher's pod from its first container to its last, with another command; what the first said that failed.
    pub(crate) fn launch(&self, words: &[&str]) -> Result<Told, Told> {
        for container in first(&self.launcher.1) {
            let told = self.container(&self.launcher.0, container, None);
            if !told.status.success() {
                return Err(told);
            }
        }
        Ok(self.main(words))
    }

    /// The launcher's own container alone, with another command.
    pub(crate) fn main(&self, words: &[&str]) -> Told {
        let (host, job) = &self.launcher;
        self.container(host, &pod(job).containers[0], Some(words))
    }

    /// How often a pod called the Kubernetes API.
    pub(crate) fn api_calls(&self) -> usize {
        self.api_calls.load(Ordering::SeqCst)
    }

    /// Calls it from a worker's pod.
    pub(crate) fn call_the_api(&self, place: usize) {
        let call = format!("exec 3<>/dev/tcp/{API}/443 && read -r <&3 || true");
        self.workers[place].0.run(&["bash", "-c", &call]);
    }

    fn container(&self, host: &Host, container: &Container, words: Option<&[&str]>) -> Told {
        let done = self.as_user(host.within(), container, words).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Told { output: text(done.stdout), errors: text(done.stderr), status: done.status }
    }

    /// The container's command as the job's user, with its variables and nothing else.
    fn as_user(
        &self,
        mut command: Command,
        container: &Container,
        words: Option<&[&str]>,
    ) -> Command {
        let context = container.security_context.as_ref().unwrap();
        let [user, group] = [context.run_as_user, context.run_as_group].map(Option::unwrap);
        command.args(["setpriv", &format!("--reuid={user}"), &format!("--regid={group}")]);
        command.args([
            "--clear-groups",
            "--no-new-privs",
            "--bounding-set=-all",
            "--pdeathsig=KILL",
        ]);
        let own: Vec<String> = container.command.iter().flatten().cloned().collect();
        let words = words.map(|words| words.iter().map(|&word| word.to_owned()).collect());
        command.args(words.unwrap_or(own).iter().map(|word| self.beneath(word)));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("KUBERNETES_SERVICE_HOST", API);
        command.env("KUBERNETES_SERVICE_PORT", "443").current_dir("/").stdin(Stdio::null());
        for variable in container.env.iter().flatten() {
            let value = variable.value.as_deref().unwrap_or_default();
            command.env(&variable.name, self.beneath(value));
        }
        command
    }

    /// A path in a pod as it is here.
    fn beneath(&self, word: &str) -> String {
        let root = self.directory.path().to_str().unwrap();
        let program = env!("CARGO_BIN_EXE_podhelper");
        match word {
            "/podhelper" => program.to_owned(),
            _ => word
                .replace("/nnf/", &format!("{root}/nnf/"))
                .replace("/etc/mpi", &format!("{root}/etc/mpi")),
        }
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

fn profile(mpi: &Value, seconds: i64) -> NnfContainerProfileData {
    let pod = |name: &str| json!({"containers": [{"name": name, "image": "registry.example/i:1"}]});
    let mut all = json!({"launcher": pod("launcher"), "worker": pod("worker")});
    all.as_object_mut().unwrap().extend(mpi.as_object().unwrap().clone());
    // The workers have half of it.
    from_value(json!({"preRunTimeoutSeconds": 2 * seconds, "mpiSpec": all})).unwrap()
}

/// The files and Jobs of a run.
fn planned(
    profile: &NnfContainerProfileData,
    workers: usize,
) -> (Vec<(String, String)>, Job, Vec<Job>) {
    let rabbit = |place| Rabbit { name: format!("rabbit-{place}"), computes: Vec::new() };
    let placement: Vec<Rabbit> = (0..workers).map(rabbit).collect();
    let attempt = Attempt {
        number: 1,
        name: "demo-0-a1".to_owned(),
        keys: "demo-0-a1-keys".to_owned(),
        image: "registry.example/podhelper:1".to_owned(),
    };
    let metadata = ObjectMeta { namespace: Some("default".to_owned()), ..ObjectMeta::default() };
    let run = Run {
        workflow: "demo",
        name: &attempt.name,
        metadata,
        user: 1050,
        group: 1051,
        profile,
        storages: &[],
        placement: &placement,
        ports: &[],
        attempt: Some(&attempt),
        cluster_domain: "cluster.local",
    };
    let files = nodes::files(&run).into_iter().collect();
    let workers = (0..workers).map(|place| objects::job(&run, place).unwrap()).collect();
    (files, objects::launcher(&run).unwrap(), workers)
}

fn pod(job: &Job) -> &k8s_openapi::api::core::v1::PodSpec {
    job.spec.as_ref().unwrap().template.spec.as_ref().unwrap()
}

fn first(job: &Job) -> impl Iterator<Item = &Container> {
    pod(job).init_containers.iter().flatten()
}

fn hostname(job: &Job) -> &str {
    pod(job).hostname.as_deref().unwrap()
}

/// A network that connects hosts, and that this machine's own is no part of.
fn switch() -> Host {
    let switch = Host::new();
    switch.run(&["ip", "link", "set", "lo", "up"]);
    switch.run(&["ip", "link", "add", "switch", "type", "bridge"]);
    switch.run(&["ip", "address", "add", &format!("{API}/24"), "dev", "switch"]);
    switch.run(&["ip", "link", "set", "switch", "up"]);
    switch
}

/// A host in this network.
fn plugged(switch: &Host, place: usize) -> Host {
    let host = Host::new();
    let (port, process) = (format!("port{place}"), host.0.id().to_string());
    let plug = ["ip", "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns"];
    switch.run(&[&plug[..], &[&process]].concat());
    switch.run(&["ip", "link", "set", &port, "master", "switch", "up"]);
    host.run(&["ip", "address", "add", &format!("{}/24", address(place)), "dev", "eth0"]);
    host.run(&["ip", "link", "set", "eth0", "up"]);
    host.run(&["ip", "link", "set", "lo", "up"]);
    host
}

fn address(place: usize) -> String {
    format!("10.99.0.{}", place + 1)
}

/// Counts who calls the address of the Kubernetes API.
fn counted(switch: &Host) -> Arc<AtomicUsize> {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let network = fs::File::open(format!("/proc/{}/ns/net", switch.0.id())).unwrap();
    // One thread alone enters the network.
    let listener = thread::spawn(move || {
        setns(network.as_fd(), CloneFlags::CLONE_NEWNET).unwrap();
        TcpListener::bind((API, 443)).unwrap()
    });
    let listener = listener.join().unwrap();
    thread::spawn(move || {
        for call in listener.incoming() {
            counter.fetch_add(1, Ordering::SeqCst);
            drop(call);
        }
    });
    calls
}

/// The job's user reads and runs what is here, and the first container of a pod writes its program.
fn open_to_all(root: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let bin: PathBuf = root.join("nnf/bin");
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(bin, fs::Permissions::from_mode(0o777)).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "what an administrator would type")]
fn command(program: &str) -> Command {
    Command::new(program)
}
