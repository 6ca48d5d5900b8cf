//! Slurm itself on a cluster: munge, slurmctld, and a slurmd in the mount namespace of each compute, with `packaging/slurm`.

mod calls;
mod commands;
mod install;
mod saved;
mod times;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Output},
};

use anyhow::{Context, ensure};
pub use commands::Commands;
pub(crate) use install::{EVERYWHERE, PARTITION};
use install::{munged, prepare, set, slurmctld, slurmd};
use nix::unistd::User;
use serde_json::Value;

use crate::{
    cluster::patience,
    program::{Program, command, plant, until},
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

/// Which burst buffer, prolog and epilog Slurm has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scripts {
    /// Those of `packaging/slurm`.
    Warren,
    /// A burst buffer that does nothing, and no prolog: they measure what Slurm itself takes for a job with `#DW`.
    Empty,
}

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
        Self::on(Flow::new(2, "unused")?, Scripts::Warren, settings)
    }

    /// The same, on a cluster of the caller's.
    ///
    /// # Errors
    /// As for `start`.
    pub fn on(flow: Flow, scripts: Scripts, settings: &str) -> anyhow::Result<Self> {
        let cluster = &flow.fixture.run.cluster;
        let directory = cluster.logs().with_file_name("slurm");
        prepare(&directory, &flow, scripts, settings)?;
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
