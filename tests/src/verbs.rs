//! Calls the verbs of the agent's program that prologs and epilogs call, on one compute of a cluster, and builds the
//! objects that a workload manager writes for a job.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::JoinHandle,
    time::Duration,
};

use anyhow::{Context, ensure};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    centre::{Chassis, Job},
    fixture::Fixture,
    program::{binary, command},
};

const DWS: &str = "dataworkflowservices.github.io/v1alpha7";

/// Exit status and output of a verb.
#[derive(Debug)]
pub struct Ended {
    /// Exit status; `None` if a signal ended the process.
    pub code: Option<i32>,
    /// Standard output, with results.
    pub stdout: String,
    /// Standard error, with failures and notes.
    pub stderr: String,
}

impl Ended {
    fn read(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code();
        Self { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Checks that the exit status is `code`.
    ///
    /// # Errors
    /// When the exit status is not `code`.
    pub fn expect_exit(self, code: i32) -> anyhow::Result<Self> {
        ensure!(self.code == Some(code), "not exit status {code}: {self:?}");
        Ok(self)
    }

    /// Checks that the verb printed this text, to stdout or stderr.
    ///
    /// # Errors
    /// When the verb did not print the text.
    pub fn expect_output(self, text: &str) -> anyhow::Result<Self> {
        ensure!(self.stdout.contains(text) || self.stderr.contains(text), "no {text:?}: {self:?}");
        Ok(self)
    }

    /// Parses the JSON object that the verb printed.
    ///
    /// # Errors
    /// When the verb printed no JSON object.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_str(&self.stdout).with_context(|| format!("no JSON object: {self:?}"))
    }
}

/// Calls verbs on one compute.
#[derive(Debug, Clone)]
pub struct Caller {
    socket: PathBuf,
    /// The program, and its arguments before the verb.
    program: Vec<String>,
}

/// A verb that is running.
#[derive(Debug)]
pub struct Running {
    pid: u32,
    waiting: JoinHandle<std::io::Result<Output>>,
}

impl Running {
    /// Sends the verb a signal.
    ///
    /// # Errors
    /// When the process does not exist.
    pub fn signal(&self, signal: nix::sys::signal::Signal) -> anyhow::Result<()> {
        crate::program::signal(self.pid, signal)
    }

    /// Waits for the end of the verb.
    ///
    /// # Errors
    /// When the wait for the process fails.
    pub fn wait(self) -> anyhow::Result<Ended> {
        let output = self.waiting.join().map_err(|_| anyhow::anyhow!("the waiter panicked"))?;
        Ok(Ended::read(&output.context("wait for a verb")?))
    }
}

impl Caller {
    /// Returns a caller of verbs on this compute, with the agent's own program.
    ///
    /// # Errors
    /// When the program was not built.
    pub fn on(fixture: &Fixture, compute: &str) -> anyhow::Result<Self> {
        let run = fixture.run.cluster.coordinator_socket();
        let run = run.parent().context("a directory")?;
        Self::at(&run.join(format!("{compute}.sock")))
    }

    /// Returns a caller of verbs at this socket.
    ///
    /// # Errors
    /// When the program was not built.
    pub fn at(socket: &Path) -> anyhow::Result<Self> {
        let program = vec![binary("clientmount-agent")?.display().to_string()];
        Ok(Self { socket: socket.to_owned(), program })
    }

    /// Returns a caller that calls the same verbs by `warren node`.
    ///
    /// # Errors
    /// When `warren` was not built.
    pub fn by_warren(&self) -> anyhow::Result<Self> {
        let program = vec![binary("warren")?.display().to_string(), "node".to_owned()];
        Ok(Self { program, ..self.clone() })
    }

    fn command(&self, words: &[&str], environment: &[(&str, &str)]) -> Command {
        let mut argv = command(&self.program[0]);
        argv.args(&self.program[1..]).args(words).arg("--listen").arg(&self.socket);
        argv.envs(environment.iter().copied());
        argv
    }

    /// Calls a verb and waits for its end.
    ///
    /// # Errors
    /// When the verb cannot be started.
    pub fn call(&self, words: &[&str]) -> anyhow::Result<Ended> {
        self.call_with(words, &[])
    }

    /// Calls a verb with these environment variables, and waits for its end.
    ///
    /// # Errors
    /// When the verb cannot be started.
    pub fn call_with(&self, words: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Ended> {
        let output = self.command(words, environment).output();
        Ok(Ended::read(&output.with_context(|| words.join(" "))?))
    }

    /// Starts a verb without waiting.
    ///
    /// # Errors
    /// When the verb cannot be started.
    pub fn begin(&self, words: &[&str]) -> anyhow::Result<Running> {
        let mut argv = self.command(words, &[]);
        argv.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child: Child = argv.spawn().with_context(|| words.join(" "))?;
        let pid = child.id();
        Ok(Running { pid, waiting: std::thread::spawn(move || child.wait_with_output()) })
    }
}

/// Returns a Workflow in this state, for job number 1, whose Flux ID is `f2`.
#[must_use]
pub fn workflow(job: &Job, state: &str) -> Value {
    json!({
        "apiVersion": DWS, "kind": "Workflow",
        "metadata": {"name": job.name, "namespace": "default"},
        "spec": {
            "desiredState": state, "wlmID": "flux", "jobID": "f2", "userID": job.user,
            "groupID": job.user, "hurry": false, "forceReady": false,
            "dwDirectives": [format!("#DW jobdw type={} capacity=320MiB name=my-scratch", job.file_system)],
        },
    })
}

/// Writes a Workflow's status as the site's controllers would. `warren apply` could not, since it writes no status.
///
/// # Errors
/// When the API refuses the status.
pub fn report(fixture: &Fixture, status: &Value) -> anyhow::Result<()> {
    let (name, kubeconfig) = (&fixture.run.job.name, fixture.run.cluster.kubeconfig());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = control_plane::client(&kubeconfig).await?;
        let resource = ApiResource::erase::<api::Workflow>(&());
        let workflows: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
        let patch = Patch::Merge(json!({"status": status}));
        workflows
            .patch(name, &PatchParams::default(), &patch)
            .await
            .context("report a Workflow")?;
        Ok(())
    })
}

/// Returns the Computes of a Workflow.
#[must_use]
pub fn computes(job: &Job, chassis: &Chassis) -> Value {
    let data: Vec<_> = chassis.computes.iter().map(|(name, _)| json!({"name": name})).collect();
    json!({
        "apiVersion": DWS, "kind": "Computes",
        "metadata": {"name": job.name, "namespace": "default"}, "data": data,
    })
}

/// Deadline for a verb that must time out.
pub const SHORT: &str = "2s";
/// Deadline for a verb that must not time out.
pub const LONG: Duration = Duration::from_secs(60);
