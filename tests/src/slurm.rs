//! Real Slurm on a cluster: munge, slurmctld, and a slurmd in the mount namespace of each compute, with
//! the scripts of `packaging/slurm`.

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
use install::{munged, prepare, slurmctld, slurmd, write_settings};
use nix::unistd::User;
use serde_json::Value;

use crate::{
    cluster::patience,
    program::{Program, command, plant, until},
    workflow::Flow,
};

/// The user who submits jobs. Every system has this user: Slurm accepts no user that the system does not know.
pub const USER: &str = "games";

/// Slurm's daemons on a cluster. Dropping the value ends the daemons in the order of the fields, and then the cluster.
#[derive(Debug)]
pub struct Slurm {
    slurmds: Vec<(String, Program)>,
    slurmctld: Program,
    /// munged, which [`Slurm::end`] kills without waiting for its end.
    munged: Program,
    directory: PathBuf,
    /// The cluster with Warren.
    pub flow: Flow,
}

/// The burst buffer, prolog and epilog of Slurm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scripts {
    /// The scripts of `packaging/slurm`.
    Warren,
    /// A burst buffer that does nothing, and no prolog. With these, a bench measures the time that Slurm itself takes
    /// for a job with `#DW`.
    Empty,
}

/// Directory in which slurmctld and its scripts look for programs first.
const FIRST: &str = "first";

/// Number of a Slurm job.
pub type Job = u32;

impl Slurm {
    /// Starts a chassis of two computes, with Slurm. `settings` are lines of the administrator's settings file.
    ///
    /// # Errors
    /// When a program does not start or register.
    pub fn start(settings: &str) -> anyhow::Result<Self> {
        Self::on(Flow::new(2, "unused")?, Scripts::Warren, settings)
    }

    /// Starts Slurm on this cluster.
    ///
    /// # Errors
    /// The errors of [`Slurm::start`].
    pub fn on(flow: Flow, scripts: Scripts, settings: &str) -> anyhow::Result<Self> {
        let cluster = &flow.fixture.run.cluster;
        let directory = cluster.logs().with_file_name("slurm");
        prepare(&directory, &flow, scripts, settings)?;
        let logs = cluster.logs();
        let munged = Program::start("munged", &munged(&directory), &logs)?;
        let socket = directory.join("munge/socket");
        until("munged", patience(), || {
            ensure!(socket.exists(), "munged has no socket yet");
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

    /// Returns the program slurmctld, so that a test can kill it.
    #[must_use]
    pub fn slurmctld(&self) -> &Program {
        &self.slurmctld
    }

    /// Replaces the lines of the administrator's settings file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set(&self, settings: &str) -> anyhow::Result<()> {
        write_settings(&self.directory, &self.flow, settings)
    }

    /// Replaces a program that slurmctld's scripts run by a script.
    ///
    /// # Errors
    /// When the script cannot be written.
    pub fn replace_program(&self, name: &str, script: &str) -> anyhow::Result<()> {
        plant(&self.directory.join(FIRST).join(name), script)
    }

    /// Returns the slurmd of a compute, so that a test can kill it.
    ///
    /// # Errors
    /// When there is no such compute.
    pub fn slurmd(&self, node: &str) -> anyhow::Result<&Program> {
        let found = self.slurmds.iter().find(|(name, _)| name == node);
        found.map(|(_, program)| program).context("no such compute")
    }

    /// Returns a command line of one of Slurm's programs, to run as root.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut argv = command(program);
        argv.env("SLURM_CONF", self.directory.join("etc/slurm.conf")).current_dir(self.jobs());
        argv
    }

    /// Returns a command line of one of Slurm's programs, to run as the user who submits jobs.
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

    /// Returns the directory with job scripts and their output, to which the user may write.
    #[must_use]
    pub fn jobs(&self) -> PathBuf {
        self.directory.join("jobs")
    }

    /// Submits a script whose directives and commands are `lines`.
    ///
    /// # Errors
    /// When the script cannot be written, or sbatch does not start.
    pub fn try_submit(&self, words: &[&str], lines: &[&str]) -> anyhow::Result<Output> {
        let script = tempfile::NamedTempFile::new_in(self.jobs()).context("make a script")?;
        fs::write(&script, format!("#!/bin/bash\n{}\n", lines.join("\n")))
            .context("write the job script")?;
        fs::set_permissions(&script, Permissions::from_mode(0o755))
            .context("make the job script readable")?;
        let mut argv = self.user_command("sbatch")?;
        argv.args(["--parsable", "--output=%j.out"]).args(words).arg(script.path());
        argv.output().context("start sbatch")
    }

    /// Submits a script, and returns the job's number.
    ///
    /// # Errors
    /// When sbatch refuses the script.
    pub fn submit(&self, words: &[&str], lines: &[&str]) -> anyhow::Result<Job> {
        let output = self.try_submit(words, lines)?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "sbatch: {stderr}");
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim().parse().with_context(|| format!("the number of a job: {text}"))
    }

    /// Waits until a job has succeeded and its storage is gone; returns the job's output.
    ///
    /// # Errors
    /// When the job is not complete in time.
    pub fn wait_until_complete(&self, job: Job) -> anyhow::Result<String> {
        self.wait_for(job, &["JobState=COMPLETED", "BurstBufferState=complete"])?;
        self.output(job)
    }

    /// Returns the output of a job.
    ///
    /// # Errors
    /// When the output cannot be read.
    pub fn output(&self, job: Job) -> anyhow::Result<String> {
        let file = self.jobs().join(format!("{job}.out"));
        fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))
    }

    /// Returns state and reason of a job, as `squeue` prints them.
    ///
    /// # Errors
    /// When `squeue` fails.
    pub fn queue_state(&self, job: Job) -> anyhow::Result<String> {
        let jobs = format!("--jobs={job}");
        self.prints("squeue", &["--noheader", "--states=all", &jobs, "--format=%T %r"])
    }

    /// Checks that nothing of any job is left in Slurm or on the nodes.
    ///
    /// # Errors
    /// When something of a job is left.
    pub fn nothing_is_left(&self) -> anyhow::Result<()> {
        self.wait_for_empty_queue()?;
        self.flow.nothing_is_left()?;
        self.nothing_is_reserved()?;
        for (node, _) in &self.slurmds {
            let root = self.flow.fixture.run.cluster.mount_root();
            let script = format!("grep -F ' {root}/' /proc/self/mountinfo || true");
            let mounts = self.flow.fixture.run.cluster.run_on(node, 0, &script)?;
            ensure!(mounts.is_empty(), "{node} has mounts: {mounts}");
        }
        Ok(())
    }

    /// Checks that no byte of the rabbits' capacity is reserved for a job.
    ///
    /// # Errors
    /// When a byte is reserved.
    pub fn nothing_is_reserved(&self) -> anyhow::Result<()> {
        until("all bytes to be free", patience(), || {
            let capacity = self.flow.fixture.run.prints(&["workload", "capacity", "--json"])?;
            let capacity: Value = serde_json::from_str(&capacity).context("decode the capacity")?;
            ensure!(
                capacity["free"] == capacity["total"] && capacity["free"] != 0,
                "reserved: {capacity}"
            );
            Ok(())
        })
    }

    /// Stops all programs as systemd would, and checks that nothing of them is left.
    ///
    /// # Errors
    /// When a program does not stop cleanly, or when something of the programs is left.
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

    /// Stops the slurmd of a compute; it is not started again.
    ///
    /// # Errors
    /// When the slurmd does not stop.
    pub fn stop_slurmd(&mut self, node: &str) -> anyhow::Result<()> {
        let place = self.slurmds.iter().position(|(name, _)| name == node);
        let (_, mut slurmd) = self.slurmds.remove(place.context("no such compute")?);
        slurmd.stop(patience()).map(drop)
    }

    /// Starts the slurmd of a compute in the node's present mount namespace.
    ///
    /// # Errors
    /// When the slurmd cannot be started.
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
