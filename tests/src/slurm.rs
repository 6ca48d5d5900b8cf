//! Slurm itself on a cluster: munge, slurmctld, and a slurmd in the mount namespace of each compute, with `packaging/slurm`.

mod calls;
mod commands;
mod saved;
mod times;

use std::{
    fs::{self, Permissions},
    net::TcpListener,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context, ensure};
pub use commands::Commands;
use nix::unistd::User;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    cluster::patience,
    program::{Program, binary, command, plant, until},
    workflow::Flow,
};

/// Who submits jobs: a user that every system has, for Slurm takes none whom the system does not know.
pub const USER: &str = "games";

/// Slurm's daemons on a cluster. They end before it, in the order of the fields.
#[derive(Debug)]
pub struct Slurm {
    slurmds: Vec<(String, Program)>,
    slurmctld: Program,
    /// munged, whose end nobody waits for.
    munged: Program,
    directory: PathBuf,
    /// The cluster.
    pub flow: Flow,
}

/// What Slurm has in the place of `packaging/slurm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// Nothing: that itself.
    Ours,
    /// A burst buffer that does nothing, and no prolog: what Slurm itself takes for a job with `#DW`.
    Empty,
}

/// Functions that do nothing.
const EMPTY: &str = r#"
for _, name in ipairs({"job_process", "job_teardown", "setup", "data_in", "real_size", "paths", "pre_run", "post_run",
                       "data_out", "get_status"}) do
    _G["slurm_bb_" .. name] = function() return slurm.SUCCESS end
end
function slurm_bb_pools()
    return slurm.SUCCESS, '{"pools":[{"id":"rabbit","quantity":8589934592,"granularity":1}]}'
end
"#;

/// Lines of slurm.conf that do not depend on where its daemons run.
pub(crate) const EVERYWHERE: &str = "SlurmUser=slurm\nAuthType=auth/munge\nCredType=cred/munge\n\
    ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\nMailProg=/bin/true\n\
    SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSlurmdParameters=config_overrides\n\
    KillWait=1\nPrologFlags=Alloc\nRequeueExit=99\n\
    BurstBufferType=burst_buffer/lua\nJobSubmitPlugins=lua\nDebugFlags=BurstBuffer\n\
    SchedulerParameters=sched_interval=2,bf_interval=2,nohold_on_prolog_fail\n";

/// The line for all nodes, which comes after theirs.
pub(crate) const PARTITION: &str =
    "PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=EXCLUSIVE\n";

/// Where slurmctld and its scripts look for programs first.
const FIRST: &str = "first";

/// A job's number.
pub type Job = u32;

impl Slurm {
    /// A chassis of two computes, with Slurm; `settings` are lines of the administrator's file.
    ///
    /// # Errors
    /// When a program does not start or register.
    pub fn start(settings: &str) -> anyhow::Result<Self> {
        Self::on(Flow::new(2, "unused")?, Parts::Ours, settings)
    }

    /// The same, on a cluster of the caller's.
    ///
    /// # Errors
    /// As for `start`.
    pub fn on(flow: Flow, parts: Parts, settings: &str) -> anyhow::Result<Self> {
        let cluster = &flow.fixture.run.cluster;
        let directory = cluster.logs().with_file_name("slurm");
        prepare(&directory, &flow, settings)?;
        if parts == Parts::Empty {
            fs::write(directory.join("etc/burst_buffer.lua"), EMPTY).context("do nothing")?;
            for script in ["prolog", "epilog"] {
                plant(&directory.join("etc").join(script), "#!/bin/sh\n")?;
            }
        }
        let logs = cluster.logs();
        let munged = Program::start("munged", &munged(&directory), &logs)?;
        let socket = directory.join("munge/socket");
        until("munged", patience(), || {
            ensure!(socket.exists(), "it has no socket yet");
            Ok(())
        })?;
        let slurmctld = Program::start("slurmctld", &slurmctld(&directory)?, &logs)?;
        let mut slurmds = Vec::new();
        for (node, _) in &cluster.chassis().computes {
            let name = format!("slurmd-{node}");
            slurmds.push((
                node.clone(),
                Program::start(&name, &slurmd(&directory, &flow, node)?, &logs)?,
            ));
        }
        let slurm = Self { slurmds, slurmctld, munged, directory, flow };
        slurm.wait_for_nodes("idle")?;
        Ok(slurm)
    }

    /// slurmctld, to be killed.
    #[must_use]
    pub fn slurmctld(&self) -> &Program {
        &self.slurmctld
    }

    /// Gives the administrator's file other lines.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set(&self, settings: &str) -> anyhow::Result<()> {
        set(&self.directory, &self.flow, settings)
    }

    /// Puts a script in the place of a program that slurmctld's scripts run.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn replace_program(&self, name: &str, script: &str) -> anyhow::Result<()> {
        plant(&self.directory.join(FIRST).join(name), script)
    }

    /// The slurmd of a compute, to be killed.
    ///
    /// # Errors
    /// When there is no such compute.
    pub fn slurmd(&self, node: &str) -> anyhow::Result<&Program> {
        let found = self.slurmds.iter().find(|(name, _)| name == node);
        found.map(|(_, program)| program).context("no such compute")
    }

    /// One of Slurm's commands, as root.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut argv = command(program);
        argv.env("SLURM_CONF", self.directory.join("etc/slurm.conf")).current_dir(self.jobs());
        argv
    }

    /// The same, as the user who submits jobs.
    ///
    /// # Errors
    /// When the system has no such user.
    pub fn user_command(&self, program: &str) -> anyhow::Result<Command> {
        let user = user(USER)?;
        let mut argv = command("setpriv");
        argv.args(["--reuid", &user.uid.to_string(), "--regid", &user.gid.to_string()]);
        argv.args(["--clear-groups", program]);
        argv.env("SLURM_CONF", self.directory.join("etc/slurm.conf")).current_dir(self.jobs());
        Ok(argv)
    }

    /// Where job scripts and their output are, open to the user.
    #[must_use]
    pub fn jobs(&self) -> PathBuf {
        self.directory.join("jobs")
    }

    /// Hands in a script whose directives and commands are `lines`.
    ///
    /// # Errors
    /// When it cannot be written, or sbatch does not start.
    pub fn try_submit(&self, words: &[&str], lines: &[&str]) -> anyhow::Result<Output> {
        let script = tempfile::NamedTempFile::new_in(self.jobs()).context("make a script")?;
        fs::write(&script, format!("#!/bin/bash\n{}\n", lines.join("\n"))).context("write it")?;
        fs::set_permissions(&script, Permissions::from_mode(0o755)).context("let it be read")?;
        let mut argv = self.user_command("sbatch")?;
        argv.args(["--parsable", "--output=%j.out"]).args(words).arg(script.path());
        argv.output().context("start sbatch")
    }

    /// The same; the job's number.
    ///
    /// # Errors
    /// When sbatch refuses it.
    pub fn submit(&self, words: &[&str], lines: &[&str]) -> anyhow::Result<Job> {
        let output = self.try_submit(words, lines)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "sbatch: {said}");
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim().parse().with_context(|| format!("the number of a job: {text}"))
    }

    /// Waits until a job has ended well and its storage is gone.
    ///
    /// # Errors
    /// When it does not in time.
    pub fn completed(&self, job: Job) -> anyhow::Result<String> {
        self.wait_for(job, &["JobState=COMPLETED", "BurstBufferState=complete"])?;
        self.output(job)
    }

    /// What a job printed.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn output(&self, job: Job) -> anyhow::Result<String> {
        let file = self.jobs().join(format!("{job}.out"));
        fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))
    }

    /// What `squeue` says of a job: its state and the reason.
    ///
    /// # Errors
    /// When it fails.
    pub fn queued(&self, job: Job) -> anyhow::Result<String> {
        let jobs = format!("--jobs={job}");
        self.prints("squeue", &["--noheader", "--states=all", &jobs, "--format=%T %r"])
    }

    /// Checks that nothing is left of any job, in Slurm and on the nodes.
    ///
    /// # Errors
    /// When something is.
    pub fn nothing_is_left(&self) -> anyhow::Result<()> {
        self.wait_for_empty_queue()?;
        self.flow.nothing_is_left()?;
        self.nothing_is_promised()?;
        for (node, _) in &self.slurmds {
            let root = self.flow.fixture.run.cluster.mount_root();
            let script = format!("grep -F ' {root}/' /proc/self/mountinfo || true");
            let mounts = self.flow.fixture.run.cluster.run_on(node, 0, &script)?;
            ensure!(mounts.is_empty(), "{node} has mounts: {mounts}");
        }
        Ok(())
    }

    /// Checks that no byte of the rabbits is promised.
    ///
    /// # Errors
    /// When one is.
    pub fn nothing_is_promised(&self) -> anyhow::Result<()> {
        until("all bytes to be free", patience(), || {
            let told = self.flow.fixture.run.prints(&["workload", "capacity", "--json"])?;
            let told: Value = serde_json::from_str(&told).context("decode the capacity")?;
            ensure!(told["free"] == told["total"] && told["free"] != 0, "promised: {told}");
            Ok(())
        })
    }

    /// Stops everything as systemd would and checks that nothing is left.
    ///
    /// # Errors
    /// When a program does not stop cleanly, or something is left.
    pub fn end(mut self) -> anyhow::Result<()> {
        for (node, slurmd) in &mut self.slurmds {
            let code = slurmd.stop(patience())?;
            ensure!(code == 0, "slurmd of {node} ended with {code}");
        }
        let code = self.slurmctld.stop(patience())?;
        ensure!(code == 0, "slurmctld ended with {code}");
        drop(self.munged);
        self.flow.end()
    }

    /// Stops one slurmd for good.
    ///
    /// # Errors
    /// When it does not stop.
    pub fn stop_slurmd(&mut self, node: &str) -> anyhow::Result<()> {
        let place = self.slurmds.iter().position(|(name, _)| name == node);
        let (_, mut slurmd) = self.slurmds.remove(place.context("no such compute")?);
        slurmd.stop(patience()).map(drop)
    }

    /// Starts the slurmd of a compute, on the node as it is now.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_slurmd(&mut self, node: &str) -> anyhow::Result<()> {
        let argv = slurmd(&self.directory, &self.flow, node)?;
        let logs = self.flow.fixture.run.cluster.logs();
        let slurmd = Program::start(&format!("slurmd-{node}"), &argv, &logs)?;
        self.slurmds.push((node.to_owned(), slurmd));
        Ok(())
    }
}

impl Commands for Slurm {
    fn prints(&self, program: &str, words: &[&str]) -> anyhow::Result<String> {
        let mut argv = self.command(program);
        argv.args(words);
        crate::cluster::output(argv).with_context(|| format!("{program} {}", words.join(" ")))
    }
}

fn user(name: &str) -> anyhow::Result<User> {
    let found = User::from_name(name).context("look up a user")?;
    found.with_context(|| format!("there is no user {name}"))
}

fn packaged(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/slurm").join(file)
}

/// Writes the administrator's file.
fn set(directory: &Path, flow: &Flow, settings: &str) -> anyhow::Result<()> {
    let sockets = flow.fixture.run.cluster.workloads_socket();
    let text = format!("WARREN_COORDINATOR=unix://{}\n{settings}", sockets.display());
    fs::write(directory.join("etc/warren"), text).context("write settings")
}

/// A port that nobody listens on now.
fn port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("find a port")?;
    Ok(listener.local_addr().context("find a port")?.port())
}

/// PATH with our programs first.
fn path() -> anyhow::Result<String> {
    let ours = binary("warren")?;
    let ours = ours.parent().context("a directory")?.display().to_string();
    Ok(format!("{ours}:{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()))
}

/// The directories and files that an administrator makes.
fn prepare(directory: &Path, flow: &Flow, settings: &str) -> anyhow::Result<()> {
    let cluster = &flow.fixture.run.cluster;
    let slurm = user("slurm")?;
    for name in ["etc", "state", "munge", "jobs", FIRST] {
        fs::create_dir_all(directory.join(name)).context("make a directory")?;
    }
    let open = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).context("let users in")
    };
    let base = directory.parent().context("the cluster's directory")?;
    let sockets = cluster.workloads_socket();
    for path in [base, sockets.parent().context("a directory")?] {
        open(path, 0o711)?;
    }
    open(&directory.join("jobs"), 0o1777)?;
    let (uid, gid) = (Some(slurm.uid.as_raw()), Some(slurm.gid.as_raw()));
    chown(directory.join("state"), uid, gid).context("give Slurm its state")?;
    let halves = [Uuid::new_v4(), Uuid::new_v4()];
    fs::write(directory.join("munge/key"), halves.map(Uuid::into_bytes).concat())
        .context("write a key")?;
    open(&directory.join("munge/key"), 0o600)?;
    let etc = directory.join("etc");
    for name in ["burst_buffer.lua", "burst_buffer.conf", "job_submit.lua"] {
        fs::copy(packaged(name), etc.join(name)).with_context(|| format!("install {name}"))?;
    }
    fs::write(etc.join("slurm.conf"), configuration(directory, flow)?).context("configure")?;
    set(directory, flow, settings)?;
    for script in ["prolog", "epilog"] {
        // Slurm gives its scripts hardly any environment: what a package finds at fixed places is named here.
        let text = format!(
            "#!/bin/sh\nexport PATH='{}' WARREN_SLURM_FILE='{}' WARREN_RUN='{}'\n\
             export WARREN_LISTEN=\"{}/$SLURMD_NODENAME.sock\"\n\
             exec '{}' >> '{}'/$SLURMD_NODENAME-{script}.log 2>&1\n",
            path()?,
            etc.join("warren").display(),
            directory.display(),
            cluster.coordinator_socket().with_file_name("").display(),
            packaged(script).display(),
            cluster.logs().display(),
        );
        plant(&etc.join(script), &text)?;
    }
    Ok(())
}

fn configuration(directory: &Path, flow: &Flow) -> anyhow::Result<String> {
    let at = directory.display();
    let mut text = format!(
        "{EVERYWHERE}ClusterName=test\nSlurmctldHost=localhost\nSlurmctldPort={}\nReturnToService=2\nSlurmdTimeout=30\nSlurmctldDebug=verbose\n\
         AuthInfo=socket={at}/munge/socket\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool-%n\n\
         SlurmctldPidFile={at}/state/pid\nSlurmdPidFile={at}/pid-%n\n\
         Prolog={at}/etc/prolog\nEpilog={at}/etc/epilog\n",
        port()?
    );
    for (node, _) in &flow.fixture.run.cluster.chassis().computes {
        text.push_str(&format!("NodeName={node} NodeHostname=localhost Port={} CPUs=2\n", port()?));
    }
    Ok(text + PARTITION)
}

fn munged(directory: &Path) -> Command {
    let at = directory.join("munge");
    let mut argv = command("munged");
    argv.args(["--foreground", "--force"]);
    for (flag, file) in [
        ("--key-file", "key"),
        ("--socket", "socket"),
        ("--pid-file", "pid"),
        ("--seed-file", "seed"),
    ] {
        argv.arg(format!("{flag}={}", at.join(file).display()));
    }
    argv
}

fn slurmctld(directory: &Path) -> anyhow::Result<Command> {
    let mut argv = command("slurmctld");
    argv.args(["-D", "-f"]).arg(directory.join("etc/slurm.conf"));
    let path = format!("{}:{}", directory.join(FIRST).display(), path()?);
    argv.env("PATH", path).env("SLURM_CONF", directory.join("etc/slurm.conf"));
    argv.env("WARREN_SLURM_FILE", directory.join("etc/warren"));
    Ok(argv)
}

fn slurmd(directory: &Path, flow: &Flow, node: &str) -> anyhow::Result<Command> {
    let on = flow.fixture.run.cluster.node(node)?.node_pid().to_string();
    let mut argv = command("nsenter");
    argv.args(["--mount", "--target", &on, "slurmd", "-D", "-N", node, "-f"]);
    argv.arg(directory.join("etc/slurm.conf"));
    argv.env("SLURM_CONF", directory.join("etc/slurm.conf"));
    Ok(argv)
}
