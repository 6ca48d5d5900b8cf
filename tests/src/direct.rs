//! A rabbit and a compute that use an API server directly, without a coordinator; and the stand-in for the Go daemon,
//! which can replace the compute's agent.
//!
//! The compute is a mount namespace that outlives the programs on it, so that one program can take over
//! the mounts of another.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    api_server::ApiServer,
    centre::{Chassis, Job},
    cluster::{DRIVES, Environment, PATIENCE},
    leftovers::{leftovers, release_drives},
    program::{Program, binary, command, until},
};

/// Name of the only compute.
pub const COMPUTE: &str = "compute-1";
/// Path of a link to our agent with the Go daemon's name. The tests start the agent by this path.
const AS_CLIENTMOUNTD: &str = "bin/clientmountd";

/// All parts of one test. When this value is dropped, the programs end first, then their files are removed.
#[derive(Debug)]
pub struct Direct {
    /// The API server of the test.
    pub server: ApiServer,
    /// The chassis of the test.
    pub chassis: Chassis,
    /// The job on the chassis.
    pub job: Job,
    rabbit: Option<Program>,
    agent: Option<Program>,
    stand_in: Option<Program>,
    /// Holds the compute's mount namespace.
    node: Option<Program>,
    directory: TempDir,
}

impl Direct {
    /// Starts an API server, installs Warren's CRDs after applying `change` to each, creates the namespaces, and
    /// creates a compute on which no program runs yet.
    ///
    /// # Errors
    /// When the server does not start.
    pub fn new(change: impl Fn(&mut Value)) -> anyhow::Result<Self> {
        let fixture = Self::without_crds()?;
        fixture.server.install_crds(change)?;
        fixture.server.create(&fixture.chassis.system_configuration())?;
        Ok(fixture)
    }

    /// Starts the same server and compute as [`Direct::new`], but installs no CRDs.
    ///
    /// # Errors
    /// When the server does not start.
    pub fn without_crds() -> anyhow::Result<Self> {
        // The directory is on a disk, as at a site: loop devices over a tmpfs take another code path in the kernel.
        let directory =
            TempDir::with_prefix_in("warren-test-", "/var/tmp").context("make a directory")?;
        let at = directory.path();
        for name in ["run", "logs", "mnt", "pool", "bin"] {
            fs::create_dir_all(at.join(name)).with_context(|| format!("create {name}"))?;
        }
        std::os::unix::fs::symlink(binary("clientmount-agent")?, at.join(AS_CLIENTMOUNTD))
            .context("link the agent")?;
        let server = ApiServer::start(at)?;
        let chassis = Chassis::new(1);
        for namespace in [&*chassis.rabbit, COMPUTE, "compute-2"] {
            server.create(
                &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            )?;
        }
        let mut idle = command("tail");
        idle.args(["-f", "/dev/null"]);
        let node = Program::start_on_node("node", &idle, &at.join("mnt"), &at.join("logs"))?;
        let job = Job::new(1, "xfs", &at.join("mnt/nnf").display().to_string());
        let fixture = Self {
            server,
            chassis,
            job,
            rabbit: None,
            agent: None,
            stand_in: None,
            node: Some(node),
            directory,
        };
        fixture.renew_credentials()?;
        let tmpfs = fixture.at("mnt");
        until("the compute", PATIENCE, || {
            let mounts = fixture.mounts()?;
            ensure!(mounts.iter().any(|mount| mount.target == tmpfs), "no tmpfs yet");
            Ok(())
        })?;
        Ok(fixture)
    }

    /// Returns a path in the test's directory.
    #[must_use]
    pub fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes the current token and CA to the compute's files.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn renew_credentials(&self) -> anyhow::Result<()> {
        for (name, content) in
            [("token", self.server.token()?.into_bytes()), ("ca", self.server.authority()?)]
        {
            // Renames a complete file over the old one, as programs that rotate tokens do.
            let draft = self.at("draft");
            fs::write(&draft, content).context("write credentials")?;
            fs::rename(&draft, self.at(name)).context("write credentials")?;
        }
        Ok(())
    }

    /// Starts the rabbit's agent.
    ///
    /// # Errors
    /// When the agent cannot be started.
    pub fn start_rabbit(&mut self) -> anyhow::Result<()> {
        self.start_rabbit_with(&[])
    }

    /// Starts the rabbit's agent with these environment variables.
    ///
    /// # Errors
    /// When the agent cannot be started.
    pub fn start_rabbit_with(&mut self, environment: Environment<'_>) -> anyhow::Result<()> {
        let mut argv = command(binary("rabbit-agent")?);
        argv.args(["--node", &self.chassis.rabbit]);
        argv.arg("--api").arg(format!("kubeconfig:{}", self.server.kubeconfig().display()));
        argv.arg("--mount-root").arg(self.at("mnt/nnf"));
        argv.arg("--temp-root").arg(self.at("mnt/temp"));
        argv.arg("--file-pool").arg(self.at("pool")).args(DRIVES);
        argv.arg("--state-dir").arg(self.at("state-rabbit"));
        argv.arg("--listen").arg(self.at("run/rabbit.sock"));
        argv.envs(environment.iter().copied());
        let (mounts, logs) = (self.at("mnt"), self.at("logs"));
        self.rabbit = Some(Program::start_on_node("rabbit-1", &argv, &mounts, &logs)?);
        Ok(())
    }

    /// Starts the compute's agent, under the name and with the flags of the Go daemon.
    ///
    /// # Errors
    /// When the agent cannot be started.
    pub fn start_agent(&mut self) -> anyhow::Result<()> {
        let mut argv = self.on_node(&self.at(AS_CLIENTMOUNTD))?;
        argv.arg("-kubernetes-service-host=127.0.0.1");
        argv.arg("--kubernetes-service-port").arg(self.server.port().to_string());
        argv.arg("-node-name").arg(COMPUTE);
        argv.arg("--service-token-file").arg(self.at("token"));
        argv.arg(format!("--service-cert-file={}", self.at("ca").display()));
        argv.args(["--mock=false", "-zap-log-level=info"]);
        argv.arg("--mount-root").arg(self.at("mnt/nnf"));
        argv.arg("--file-pool").arg(self.at("pool"));
        argv.arg("--state-dir").arg(self.at("state-compute"));
        argv.arg("--listen").arg(self.at("run/compute.sock"));
        self.agent = Some(Program::start("agent", &argv, &self.at("logs"))?);
        Ok(())
    }

    /// Starts the stand-in for the Go daemon, with the computes' credentials.
    ///
    /// # Errors
    /// When the stand-in cannot be started.
    pub fn start_stand_in(&mut self) -> anyhow::Result<()> {
        let kubeconfig = self.at("stand-in.kubeconfig");
        let server = format!("https://127.0.0.1:{}", self.server.port());
        let authority = String::from_utf8(self.server.authority()?).context("the CA")?;
        let login = control_plane::Login::TokenFile(self.at("token"));
        control_plane::write_kubeconfig(&kubeconfig, &server, &authority, &login)?;
        let mut argv = self.on_node(&binary("stand-in")?)?;
        argv.arg(kubeconfig).arg(COMPUTE).arg(self.at("pool"));
        self.stand_in = Some(Program::start("stand-in", &argv, &self.at("logs"))?);
        Ok(())
    }

    fn on_node(&self, program: &Path) -> anyhow::Result<Command> {
        let mut argv = command("nsenter");
        argv.args(["--mount", "--target", &self.node_pid()?.to_string(), "--"]).arg(program);
        Ok(argv)
    }

    fn node_pid(&self) -> anyhow::Result<u32> {
        Ok(self.node.as_ref().context("the compute is down")?.node_pid())
    }

    /// Returns the program of the rabbit's agent.
    ///
    /// # Errors
    /// When the agent was not started.
    pub fn rabbit(&self) -> anyhow::Result<&Program> {
        self.rabbit.as_ref().context("the rabbit does not run")
    }

    /// Returns the program of the compute's agent.
    ///
    /// # Errors
    /// When the agent was not started.
    pub fn agent(&self) -> anyhow::Result<&Program> {
        self.agent.as_ref().context("the agent does not run")
    }

    /// Returns everything that the compute's agent logged.
    ///
    /// # Errors
    /// When the agent's log cannot be read.
    pub fn agent_log(&self) -> anyhow::Result<String> {
        fs::read_to_string(self.at("logs/agent.log")).context("read the agent's log")
    }

    /// Waits until the agent has logged these words.
    ///
    /// # Errors
    /// When the agent does not log the words in time.
    pub fn until_logged(&self, words: &str) -> anyhow::Result<()> {
        until(words, PATIENCE, || {
            let log = self.agent_log()?;
            ensure!(log.contains(words), "so far:\n{log}");
            Ok(())
        })
    }

    /// Stops the compute's agent as systemd would.
    ///
    /// # Errors
    /// When the agent does not stop with exit code 0.
    pub fn stop_agent(&mut self) -> anyhow::Result<()> {
        let code = self.agent.take().context("the agent does not run")?.stop(PATIENCE)?;
        ensure!(code == 0, "the agent ended with {code}:\n{}", self.agent_log()?);
        Ok(())
    }

    /// Kills the stand-in with SIGKILL, because it handles no other signal.
    ///
    /// # Errors
    /// When the stand-in does not run.
    pub fn stop_stand_in(&mut self) -> anyhow::Result<()> {
        self.stand_in.take().map(drop).context("the stand-in does not run")
    }

    /// Lets the rabbit create the job's volume and give the compute access. Returns the ClientMount that
    /// would mount the volume.
    ///
    /// # Errors
    /// When the rabbit does not finish in time.
    pub fn carve(&mut self) -> anyhow::Result<Value> {
        self.start_rabbit()?;
        let block_storage = self.job.block_storage(&self.chassis, false);
        let file_systems = self.job.file_systems(&self.chassis);
        for object in [&self.job.profile(), &block_storage, &file_systems] {
            self.server.create(object)?;
        }
        self.until_object(&file_systems, "ready", |object| object["status"]["ready"] == true)?;
        let granted = self.job.block_storage(&self.chassis, true);
        self.server.patch(&granted, &json!({"spec": granted["spec"]}), false)?;
        let carved = self.until_object(&granted, "granted", |object| {
            object["status"]["allocations"][0]["accesses"][COMPUTE].is_object()
        })?;
        Ok(self.job.compute_mount(&self.chassis, 0, &carved))
    }

    /// Deletes the objects that [`Direct::carve`] created.
    ///
    /// # Errors
    /// When an object stays.
    pub fn tear_down(&mut self) -> anyhow::Result<()> {
        let block_storage = self.job.block_storage(&self.chassis, false);
        let file_systems = self.job.file_systems(&self.chassis);
        for object in [&file_systems, &block_storage, &self.job.profile()] {
            self.server.delete(object)?;
            self.until_gone(object)?;
        }
        Ok(())
    }

    /// Waits until an object satisfies `good`.
    ///
    /// # Errors
    /// When the object does not satisfy `good` in time; the message has the object.
    pub fn until_object(
        &self,
        like: &Value,
        what: &str,
        good: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        until(&format!("{what}; logs are in {}", self.at("logs").display()), PATIENCE, || {
            let object = self.server.get(like)?.context("the object does not exist")?;
            ensure!(good(&object), "the object is {object}");
            Ok(object)
        })
    }

    /// Waits until the ClientMount is in this state: its status must have one mount, in that state and
    /// ready, and no error.
    ///
    /// # Errors
    /// The errors of [`Direct::until_object`].
    pub fn until_state(&self, like: &Value, state: &str) -> anyhow::Result<Value> {
        self.until_object(like, state, |object| {
            let status = &object["status"];
            let entries = status["mounts"].as_array().map(Vec::as_slice).unwrap_or_default();
            entries.len() == 1
                && (&entries[0]["state"], &entries[0]["ready"]) == (&json!(state), &json!(true))
                && status["allReady"] == true
                && status.get("error").is_none_or(Value::is_null)
        })
    }

    /// Waits until an object no longer exists.
    ///
    /// # Errors
    /// When the object stays.
    pub fn until_gone(&self, like: &Value) -> anyhow::Result<()> {
        until("an object to go", PATIENCE, || {
            let left = self.server.get(like)?;
            ensure!(left.is_none(), "the object still exists: {left:?}");
            Ok(())
        })
    }

    /// Returns the mount at a path on the compute.
    ///
    /// # Errors
    /// When the compute's mounts cannot be read.
    pub fn mount_at(&self, path: &str) -> anyhow::Result<Option<MountEntry>> {
        Ok(self.mounts()?.into_iter().rev().find(|mount| mount.target == Path::new(path)))
    }

    fn mounts(&self) -> anyhow::Result<Vec<MountEntry>> {
        let table = format!("/proc/{}/mountinfo", self.node_pid()?);
        let table = fs::read_to_string(table).context("read the compute's mounts")?;
        Ok(table.lines().filter_map(MountEntry::read).collect())
    }

    /// Opens a file on the compute, and creates it if necessary.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open_on_node(&self, path: &str) -> anyhow::Result<File> {
        let path = format!("/proc/{}/root{path}", self.node_pid()?);
        File::options().create(true).append(true).open(&path).with_context(|| path.clone())
    }

    /// Reads a file on the compute.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read_on_node(&self, path: &str) -> anyhow::Result<String> {
        let path = format!("/proc/{}/root{path}", self.node_pid()?);
        fs::read_to_string(&path).with_context(|| path.clone())
    }

    /// Stops all programs, and checks that no mount, loop device, process or file is left.
    ///
    /// # Errors
    /// When a program does not stop cleanly, or when a mount, loop device, process or file is left.
    pub fn end(mut self) -> anyhow::Result<()> {
        if self.agent.is_some() {
            self.stop_agent()?;
        }
        if let Some(mut rabbit) = self.rabbit.take() {
            let code = rabbit.stop(PATIENCE)?;
            ensure!(code == 0, "the rabbit ended with {code}");
        }
        (self.stand_in, self.node) = (None, None);
        let left = until("everything to be gone", PATIENCE, || {
            let left = leftovers(self.directory.path())?;
            ensure!(left.is_empty(), "left behind:\n  {}", left.join("\n  "));
            Ok(left)
        })?;
        ensure!(left.is_empty());
        Ok(())
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        (self.agent, self.stand_in, self.rabbit, self.node) = (None, None, None, None);
        // A destructor cannot return an error: `end` reports drives that could not be released.
        let _ = release_drives(self.directory.path());
        if std::thread::panicking() {
            self.directory.disable_cleanup(true);
        }
    }
}

/// A line of mountinfo (proc_pid_mountinfo(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// Mount id: no other mount has the same id as long as this mount exists.
    pub id: u64,
    /// Mount point of the mount.
    pub target: PathBuf,
}

impl MountEntry {
    fn read(line: &str) -> Option<Self> {
        let mut fields = line.split(' ');
        let id = fields.next()?.parse().ok()?;
        Some(Self { id, target: fields.nth(3)?.into() })
    }
}
