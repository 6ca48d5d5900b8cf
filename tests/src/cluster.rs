//! All programs of Warren on one computer: a coordinator, a rabbit and computes, each node with its own mounts.
//!
//! A node is a process in a private mount namespace with an empty tmpfs over the mount root, so that it sees its own
//! mounts and not those of other nodes, as on a separate machine. All nodes share the drives, as with PCIe.

use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Duration,
};

use anyhow::{Context, ensure};
use nix::unistd::User;

use crate::{
    centre::Chassis,
    leftovers::{leftovers, release_drives},
    program::{Program, binary, command, plant, until},
    run::Machines,
    server::{RealServer, Server},
    webhook::Webhook,
};

/// Longest time that a test waits for any event on one computer.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the longest time that a step of a job may take: `PATIENCE`, or the number of seconds in
/// `WARREN_TEST_PATIENCE`, which is set where computers are emulated or are killed after each step.
#[must_use]
pub fn patience() -> Duration {
    let configured =
        std::env::var("WARREN_TEST_PATIENCE").ok().and_then(|seconds| seconds.parse().ok());
    configured.map_or(PATIENCE, Duration::from_secs)
}

/// Arguments for four drives that fit on a laptop.
pub const DRIVES: [&str; 4] = ["--file-drives", "4", "--file-drive-capacity", "2GiB"];

/// Returns whether the rabbit uses NVMe drives (`WARREN_TEST_DRIVES=nvme`, in the lab) instead of drives made of files.
#[must_use]
pub fn on_nvme() -> bool {
    std::env::var("WARREN_TEST_DRIVES").is_ok_and(|drives| drives == "nvme")
}

/// Flags for fencing, each with a path beneath a directory that only the rabbit has.
const FENCE_FILES: [(&str, &str); 4] = [
    ("--fence-requests", "requests"),
    ("--fence-responses", "responses"),
    ("--dlm-tool", "dlm_tool"),
    ("--corosync-conf", "corosync.conf"),
];

/// Environment variables that a program gets in addition to those of the test.
pub type Environment<'a> = &'a [(&'a str, &'a str)];

fn to_owned_pairs(environment: Environment<'_>) -> Vec<(String, String)> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    environment.iter().map(own).collect()
}

/// The program from which the computes get their ClientMounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// The coordinator, over gRPC.
    Coordinator,
    /// The API server itself, as with the sites' Go daemons.
    Api,
}

impl Link {
    /// Returns `Api` if `WARREN_TEST_LINK=api`, else `Coordinator`.
    #[must_use]
    pub fn of_this_run() -> Self {
        let api = std::env::var("WARREN_TEST_LINK").is_ok_and(|link| link == "api");
        if api { Self::Api } else { Self::Coordinator }
    }
}

/// The program that turns Workflows into objects for the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Centre {
    /// The coordinator's engine on the embedded API, the test on a real server. The engine runs only on the
    /// embedded API by default.
    Default,
    /// The coordinator's engine on either server. A real API server calls the coordinator's webhook
    /// for changes of Workflows.
    Engine,
    /// The test, instead of a site's controllers.
    Test,
}

/// The programs of one chassis, and the directory with all their files.
#[derive(Debug)]
pub struct Cluster {
    directory: PathBuf,
    chassis: Chassis,
    coordinator: Option<Program>,
    nodes: Vec<(String, Option<Program>)>,
    rabbit_arguments: Vec<String>,
    /// Name of a rabbit outside the chassis.
    other_rabbit: Option<String>,
    /// The compute of the chassis that uses the drives of `other_rabbit` instead.
    moved: Option<String>,
    /// Scripts that start the agents of certain nodes in place of this harness, by node.
    starters: Vec<(String, PathBuf)>,
    /// Environment variables of every node's agent.
    environment: Vec<(String, String)>,
    server: Server,
    link: Link,
    centre: Centre,
    webhook: Option<Webhook>,
}

impl Cluster {
    /// Starts every program of `chassis`, with all their files beneath `directory`.
    ///
    /// # Errors
    /// When a program does not start or does not serve in time; the message names the program's log.
    pub fn start(directory: &Path, chassis: Chassis) -> anyhow::Result<Self> {
        Self::start_with(directory, chassis, &DRIVES)
    }

    /// Starts a cluster whose rabbit agent gets these arguments; by default it gets those for small drives.
    ///
    /// # Errors
    /// The errors of [`Cluster::start`].
    pub fn start_with(
        directory: &Path,
        chassis: Chassis,
        rabbit_arguments: &[&str],
    ) -> anyhow::Result<Self> {
        let (server, link) = (Server::of_this_run(), Link::of_this_run());
        Self::start_on(directory, chassis, rabbit_arguments, server, link)
    }

    /// Starts a cluster on this server.
    ///
    /// # Errors
    /// The errors of [`Cluster::start`].
    pub fn start_on(
        directory: &Path,
        chassis: Chassis,
        rabbit_arguments: &[&str],
        server: Server,
        link: Link,
    ) -> anyhow::Result<Self> {
        Self::start_under(directory, chassis, rabbit_arguments, server, link, Centre::Default)
    }

    /// Starts a cluster in which `centre` turns Workflows into objects of nodes.
    ///
    /// # Errors
    /// The errors of [`Cluster::start`].
    pub fn start_under(
        directory: &Path,
        chassis: Chassis,
        rabbit_arguments: &[&str],
        server: Server,
        link: Link,
        centre: Centre,
    ) -> anyhow::Result<Self> {
        let around = (server, link, centre);
        Self::start_among(directory, chassis, rabbit_arguments, around, &[])
    }

    /// Starts a cluster with these environment variables for every node's agent.
    ///
    /// # Errors
    /// The errors of [`Cluster::start`].
    pub fn start_among(
        directory: &Path,
        chassis: Chassis,
        rabbit_arguments: &[&str],
        (server, link, centre): (Server, Link, Centre),
        environment: Environment<'_>,
    ) -> anyhow::Result<Self> {
        for name in ["run", "logs", "mnt", "pool", "coordinator", "fence", "global"] {
            fs::create_dir_all(directory.join(name)).with_context(|| format!("create {name}"))?;
        }
        let mut nodes = vec![(chassis.rabbit.clone(), None)];
        nodes.extend(chassis.computes.iter().map(|(name, _)| (name.clone(), None)));
        let rabbit_arguments =
            rabbit_arguments.iter().map(|&argument| argument.to_owned()).collect();
        let mut cluster = Self {
            directory: directory.to_owned(),
            chassis,
            coordinator: None,
            nodes,
            rabbit_arguments,
            other_rabbit: None,
            moved: None,
            starters: Vec::new(),
            environment: to_owned_pairs(environment),
            server,
            link,
            centre,
            webhook: None,
        };
        // The engine creates the nodes' namespaces. Without the engine, the test creates them, as a site's controllers
        // do.
        let nodes = if centre == Centre::Engine { Vec::new() } else { cluster.node_names() };
        cluster.server.prepare(&nodes)?;
        if let (Centre::Engine, Server::Real(real)) = (centre, &cluster.server) {
            let webhook = Webhook::new(&directory.join("coordinator"))?;
            real.prepare_for_engine(&webhook)?;
            cluster.webhook = Some(webhook);
        }
        cluster.start_coordinator()?;
        for name in cluster.node_names() {
            cluster.start_node(&name)?;
        }
        Ok(cluster)
    }

    /// Returns the chassis that the cluster runs.
    #[must_use]
    pub fn chassis(&self) -> &Chassis {
        &self.chassis
    }

    /// Returns the directory beneath which every node mounts, in its own mount namespace.
    #[must_use]
    pub fn mount_root(&self) -> String {
        self.directory.join("mnt/nnf").display().to_string()
    }

    /// Returns the directory over which each node mounts its own tmpfs.
    #[must_use]
    pub fn node_mounts(&self) -> PathBuf {
        self.directory.join("mnt")
    }

    /// Returns the path of the API's unix socket.
    #[must_use]
    pub fn api_socket(&self) -> PathBuf {
        self.directory.join("run/api.sock")
    }

    /// Returns the path of the coordinator's gRPC socket.
    #[must_use]
    pub fn coordinator_socket(&self) -> PathBuf {
        self.directory.join("run/coordinator.sock")
    }

    /// Returns the path of the coordinator's gRPC socket that every user may connect to.
    #[must_use]
    pub fn workloads_socket(&self) -> PathBuf {
        self.directory.join("run/workloads.sock")
    }

    /// Returns the socket of a node's agent.
    #[must_use]
    pub fn agent_socket(&self, node: &str) -> PathBuf {
        self.directory.join("run").join(format!("{node}.sock"))
    }

    /// Returns the administrator's kubeconfig: the real server's, or the one that the coordinator writes
    /// at its first start.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.server.real().map_or_else(
            || self.directory.join("coordinator/kubeconfig"),
            |real| real.administrator.clone(),
        )
    }

    /// Returns the API's address for a program; `kubeconfig` selects the program's kubeconfig if the server
    /// is a real one.
    fn api(&self, kubeconfig: impl Fn(&RealServer) -> &PathBuf) -> String {
        match self.server.real() {
            None => format!("unix://{}", self.api_socket().display()),
            Some(real) => format!("kubeconfig:{}", kubeconfig(real).display()),
        }
    }

    /// Returns the directory with the fence requests to the rabbit, the responses, and the configuration of
    /// the rabbit's corosync cluster.
    #[must_use]
    pub fn fence(&self) -> PathBuf {
        self.directory.join("fence")
    }

    /// Returns the directory of the programs' logs.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.directory.join("logs")
    }

    /// Returns the state directory of a node's agent, which outlives a restart.
    #[must_use]
    pub fn state_of(&self, node: &str) -> PathBuf {
        self.directory.join("state").join(node)
    }

    /// Returns the names of the nodes: the rabbit first, then the computes.
    #[must_use]
    pub fn node_names(&self) -> Vec<String> {
        self.nodes.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the nodes that connect to the coordinator.
    #[must_use]
    pub fn connected_nodes(&self) -> Vec<String> {
        let rabbit = &self.chassis.rabbit;
        let names = self.node_names().into_iter();
        names.filter(|name| self.link == Link::Coordinator || name == rabbit).collect()
    }

    /// Starts the coordinator and waits until it serves.
    ///
    /// # Errors
    /// When the coordinator does not serve in time.
    pub fn start_coordinator(&mut self) -> anyhow::Result<()> {
        self.start_coordinator_with(&[])
    }

    /// Starts the coordinator with these environment variables.
    ///
    /// # Errors
    /// The errors of [`Cluster::start_coordinator`].
    pub fn start_coordinator_with(&mut self, environment: Environment<'_>) -> anyhow::Result<()> {
        let mut argv = command(binary("coordinator")?);
        argv.envs(environment.iter().copied());
        argv.arg("--socket").arg(self.coordinator_socket());
        argv.arg("--workloads-socket")
            .arg(self.workloads_socket())
            .args(["--wlm-user", "test=1060"]);
        // Names Slurm's user to the coordinator if Slurm is installed.
        if User::from_name("slurm").is_ok_and(|user| user.is_some()) {
            argv.args(["--wlm-user", "slurm"]);
        }
        argv.arg("--mount-root").arg(self.mount_root());
        argv.arg("--global").arg(format!("site={}", self.global().display()));
        match self.centre {
            Centre::Default => {}
            Centre::Engine => drop(argv.arg("--workflows")),
            Centre::Test => drop(argv.arg("--workflows=false")),
        }
        argv.args(self.webhook.iter().flat_map(Webhook::arguments));
        match self.server.real() {
            Some(real) => argv.arg("--kubeconfig").arg(&real.roles.coordinator),
            None => argv
                .arg("--data-dir")
                .arg(self.directory.join("coordinator"))
                .arg("--api-socket")
                .arg(self.api_socket())
                .args(["--api-listen", "127.0.0.1:0"]),
        };
        self.coordinator = Some(Program::start("coordinator", &argv, &self.logs())?);
        self.wait_for_socket(&self.coordinator_socket())?;
        if self.server.real().is_none() { self.wait_for_socket(&self.api_socket()) } else { Ok(()) }
    }

    /// Starts one node's agent.
    ///
    /// # Errors
    /// When the agent cannot be started.
    pub fn start_node(&mut self, name: &str) -> anyhow::Result<()> {
        self.start_node_with(name, &[])
    }

    /// Starts one node's agent with these environment variables.
    ///
    /// # Errors
    /// The errors of [`Cluster::start_node`].
    pub fn start_node_with(
        &mut self,
        name: &str,
        environment: Environment<'_>,
    ) -> anyhow::Result<()> {
        let mut argv = self.agent(name)?;
        if let Some((_, starter)) = self.starters.iter().find(|(node, _)| node == name) {
            let mut started = command(starter);
            started.arg(argv.get_program()).args(argv.get_args());
            argv = started;
        }
        argv.envs(self.environment.iter().cloned()).envs(environment.iter().copied());
        let program =
            Program::start_on_node(name, &argv, &self.directory.join("mnt"), &self.logs())?;
        let slot = self.nodes.iter_mut().find(|(node, _)| node == name).context("no such node")?;
        slot.1 = Some(program);
        Ok(())
    }

    /// Lets the program `starter` start a node's agent, from the next start on. The program gets the agent's command
    /// line as its arguments.
    pub fn start_by(&mut self, name: &str, starter: &Path) {
        self.starters.push((name.to_owned(), starter.to_owned()));
    }

    /// Adds a rabbit of another chassis, with new drives, and starts its agent.
    ///
    /// # Errors
    /// When the agent cannot be started.
    pub fn add_rabbit(&mut self, name: &str) -> anyhow::Result<()> {
        fs::create_dir_all(self.directory.join(pool_of(name)))
            .context("create the rabbit's pool")?;
        self.nodes.push((name.to_owned(), None));
        self.other_rabbit = Some(name.to_owned());
        self.start_node(name)
    }

    /// Moves a compute to the drives of the other rabbit.
    ///
    /// # Errors
    /// When the compute's agent does not stop or start.
    pub fn move_to_other_rabbit(&mut self, compute: &str) -> anyhow::Result<()> {
        self.stop_one(compute)?;
        self.moved = Some(compute.to_owned());
        self.start_node(compute)
    }

    /// Returns the command line of a node's agent.
    ///
    /// # Errors
    /// When the program was not built.
    pub fn agent(&self, name: &str) -> anyhow::Result<Command> {
        self.agent_of(name, name)
    }

    /// Returns the command line of an agent whose records and socket are called `own`. The agent stands for that of a
    /// second computer with the same node name.
    ///
    /// # Errors
    /// When the program was not built.
    pub fn agent_of(&self, name: &str, own: &str) -> anyhow::Result<Command> {
        let is_other = self.other_rabbit.as_deref() == Some(name);
        let rabbit = is_other || name == self.chassis.rabbit;
        let pool = match &self.other_rabbit {
            Some(other) if is_other || self.moved.as_deref() == Some(name) => pool_of(other),
            _ => "pool".to_owned(),
        };
        let mut argv = command(binary(if rabbit { "rabbit-agent" } else { "clientmount-agent" })?);
        let coordinator = format!("unix://{}", self.coordinator_socket().display());
        argv.args(["--node", name]);
        argv.arg("--mount-root").arg(self.mount_root());
        if !on_nvme() {
            argv.arg("--file-pool").arg(self.directory.join(pool));
        }
        argv.arg("--state-dir").arg(self.state_of(own));
        argv.arg("--listen").arg(self.agent_socket(own));
        if rabbit {
            let api = self.api(|real| &real.roles.rabbit);
            argv.args(["--api", &api, "--coordinator", &coordinator]);
            argv.arg("--temp-root").arg(self.directory.join("mnt/temp"));
            argv.arg("--datamover").arg(binary("datamover")?);
            for (flag, name) in FENCE_FILES {
                argv.arg(flag).arg(self.fence().join(name));
            }
            if on_nvme() {
                // An allocation takes one drive, so that its volume has one device, as on drives made of files.
                argv.args(["--allocation-drives", "1"]);
            } else {
                argv.args(&self.rabbit_arguments);
            }
        } else {
            match self.link {
                Link::Coordinator => argv.args(["--coordinator", &coordinator]),
                Link::Api => {
                    argv.args(self.server.direct_api_arguments(name).unwrap_or_else(|| {
                        vec!["--api".to_owned(), self.api(|real| &real.roles.coordinator)]
                    }))
                }
            };
        }
        Ok(argv)
    }

    /// Returns the directory that jobs may copy from and to: every node sees it, as a file system of a site.
    #[must_use]
    pub fn global(&self) -> PathBuf {
        self.directory.join("global")
    }

    fn wait_for_socket(&self, path: &Path) -> anyhow::Result<()> {
        until(
            &format!("{}; logs are in {}", path.display(), self.logs().display()),
            PATIENCE,
            || UnixStream::connect(path).map(drop).context("connect"),
        )
    }

    /// Returns the program of the coordinator.
    ///
    /// # Errors
    /// When the coordinator does not run.
    pub fn coordinator(&self) -> anyhow::Result<&Program> {
        self.coordinator.as_ref().context("the coordinator does not run")
    }

    /// Returns the program of a node.
    ///
    /// # Errors
    /// When the program does not run.
    pub fn node(&self, name: &str) -> anyhow::Result<&Program> {
        let slot = self.nodes.iter().find(|(node, _)| node == name).context("no such node")?;
        slot.1.as_ref().with_context(|| format!("{name} does not run"))
    }

    /// Returns the program of a node, mutable, so that the caller can wait for its end.
    ///
    /// # Errors
    /// When the program does not run.
    pub fn node_mut(&mut self, name: &str) -> anyhow::Result<&mut Program> {
        let slot = self.nodes.iter_mut().find(|(node, _)| node == name).context("no such node")?;
        slot.1.as_mut().with_context(|| format!("{name} does not run"))
    }

    /// Runs a command outside every node, as user and group `id`.
    ///
    /// # Errors
    /// When the command fails; the message has the command's stderr.
    pub fn run_on_host_as(&self, id: u32, script: &str) -> anyhow::Result<String> {
        let id = id.to_string();
        let mut argv = command("setpriv");
        argv.args(["--reuid", &id, "--regid", &id, "--clear-groups", "/bin/sh", "-ec", script]);
        output(argv).with_context(|| script.to_owned())
    }

    /// Runs a command as a job on a node would: in its mount namespace, as user and group `id`.
    ///
    /// # Errors
    /// When the command fails; the message has the command's stderr.
    pub fn run_on(&self, node: &str, id: u32, script: &str) -> anyhow::Result<String> {
        let pid = self.node(node)?.node_pid().to_string();
        let id = id.to_string();
        let mut argv = command("nsenter");
        argv.args([
            "--mount",
            "--target",
            &pid,
            "setpriv",
            "--reuid",
            &id,
            "--regid",
            &id,
            "--clear-groups",
        ]);
        argv.args(["/bin/sh", "-ec", script]);
        output(argv).with_context(|| format!("on {node}: {script}"))
    }

    /// Returns a `warren` command that talks to this cluster.
    ///
    /// # Errors
    /// When `warren` was not built.
    pub fn warren(&self) -> anyhow::Result<Command> {
        let mut argv = command(binary("warren")?);
        argv.env("WARREN_API", self.api(|real| &real.roles.operator));
        argv.env("WARREN_COORDINATOR", format!("unix://{}", self.coordinator_socket().display()));
        Ok(argv)
    }

    /// Runs `warren` with these words and returns its output.
    ///
    /// # Errors
    /// When `warren` fails; the message has its stderr.
    pub fn warren_prints(&self, words: &[&str]) -> anyhow::Result<String> {
        let mut argv = self.warren()?;
        argv.args(words);
        output(argv).with_context(|| format!("warren {}", words.join(" ")))
    }

    /// Returns the launcher for `warren run`, a script that enters a node's mount namespace: ssh
    /// cannot reach these nodes.
    ///
    /// # Errors
    /// When a node does not run, or the script cannot be written.
    pub fn launcher(&self) -> anyhow::Result<String> {
        let mut nodes = String::new();
        for (name, _) in &self.chassis.computes {
            nodes.push_str(&format!("{name}) node={};;\n", self.node(name)?.node_pid()));
        }
        let script = self.directory.join("run/on-node");
        let text = format!(
            "#!/bin/sh\n# on-node NODE USER GROUP COMMAND...\ncase $1 in\n{nodes}esac\nuser=$2 group=$3\nshift 3\n\
             exec nsenter --mount --target \"$node\" setpriv --reuid \"$user\" --regid \"$group\" --clear-groups \"$@\"\n"
        );
        plant(&script, &text)?;
        Ok(format!("{} {{node}} {{user}} {{group}}", script.display()))
    }

    /// Waits until the rabbit's Storage object reports that workflows may use the drives.
    ///
    /// # Errors
    /// When the Storage does not report that in time.
    pub fn wait_for_drives(&self) -> anyhow::Result<()> {
        until("the rabbit's Storage to be Ready", PATIENCE, || {
            let words = ["get", "storage", &self.chassis.rabbit, "-n", "default", "--json"];
            let storage = self.warren_prints(&words)?;
            ensure!(storage.contains("\"capacity\""), "no capacity yet: {storage}");
            let storage: serde_json::Value =
                serde_json::from_str(&storage).context("decode the Storage")?;
            ensure!(storage["status"]["status"] == "Ready", "not yet: {}", storage["status"]);
            Ok(())
        })
    }

    /// Stops the named program, a node's agent or the coordinator, as systemd would.
    ///
    /// # Errors
    /// When the program does not stop, or not with exit code 0.
    pub fn stop_one(&mut self, name: &str) -> anyhow::Result<()> {
        if name == "coordinator" {
            return stop(&mut self.coordinator);
        }
        let slot = self.nodes.iter_mut().find(|(node, _)| node == name).context("no such node")?;
        stop(&mut slot.1)
    }

    /// Stops every program as systemd would.
    ///
    /// # Errors
    /// When a program does not stop, or not with exit code 0.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        for (_, program) in &mut self.nodes {
            stop(program)?;
        }
        stop(&mut self.coordinator)
    }

    /// Returns one line for each mount, loop device and program beneath the directory that still
    /// exists on this computer.
    ///
    /// # Errors
    /// When the box cannot be inspected.
    pub fn leftovers(&self) -> anyhow::Result<Vec<String>> {
        leftovers(&self.directory)
    }
}

impl Machines for Cluster {
    fn chassis(&self) -> &Chassis {
        &self.chassis
    }

    fn connected_nodes(&self) -> Vec<String> {
        Self::connected_nodes(self)
    }

    fn hand_over(&self, name: &str, bytes: &[u8]) -> anyhow::Result<String> {
        let file = self.logs().join(name);
        fs::write(&file, bytes).with_context(|| format!("write {name}"))?;
        Ok(file.display().to_string())
    }

    fn warren_prints(&self, words: &[&str]) -> anyhow::Result<String> {
        Self::warren_prints(self, words)
    }

    fn run_on(&self, node: &str, id: u32, script: &str) -> anyhow::Result<String> {
        Self::run_on(self, node, id, script)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for (_, program) in &mut self.nodes {
            *program = None;
        }
        self.coordinator = None;
        // A destructor cannot return an error: `leftovers` later reports drives that could not be released.
        let _ = release_drives(&self.directory);
    }
}

/// Returns the directory in which a rabbit of another chassis has its drives.
fn pool_of(rabbit: &str) -> String {
    format!("pool-{rabbit}")
}

fn stop(program: &mut Option<Program>) -> anyhow::Result<()> {
    let Some(mut running) = program.take() else { return Ok(()) };
    let code = running.stop(PATIENCE)?;
    ensure!(code == 0, "{} ended with {code}; see {}", running.name(), running.log().display());
    Ok(())
}

/// A command that ended with an exit code other than 0.
#[derive(Debug, thiserror::Error)]
#[error("{status}: {stderr}")]
pub struct CommandFailed {
    /// Exit status of the command.
    pub status: ExitStatus,
    /// Standard error of the command.
    pub stderr: String,
}

/// Runs a command to its end and returns its stdout.
///
/// # Errors
/// When the command cannot be started; a [`CommandFailed`] when the command ends with an exit code other than 0.
pub fn output(mut argv: Command) -> anyhow::Result<String> {
    let output = argv.output().context("start")?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(CommandFailed { status: output.status, stderr }.into());
    }
    String::from_utf8(output.stdout).context("stdout is not UTF-8")
}
