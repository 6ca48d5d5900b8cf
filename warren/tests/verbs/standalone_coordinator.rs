//! Runs a standalone coordinator in a thread, and the command with its sockets.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use assert_cmd::Command;
use coordinator::Coordinator;
use coordinator::config::{Backend, Config, Standalone};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// A test that waits longer than this has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct StandaloneCoordinator {
    /// Directory of the coordinator; `None` after [`StandaloneCoordinator::stop`].
    directory: Option<TempDir>,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
}

impl StandaloneCoordinator {
    pub(crate) fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap()).unwrap_or_else(|(_, why)| panic!("{why}"))
    }

    /// Starts a coordinator on the store in a directory.
    ///
    /// # Errors
    /// The reason why it does not start, with the directory.
    pub(crate) fn start_in(directory: TempDir) -> Result<Self, (TempDir, String)> {
        let root = directory.path();
        let standalone = Standalone {
            data_dir: root.join("data"),
            api_socket: root.join("api.sock"),
            api_listen: "127.0.0.1:0".parse().unwrap(),
            api_listen_rabbits: None,
            write_kubeconfig: Some(root.join("kubeconfig")),
        };
        let config = Config {
            backend: Backend::Standalone(standalone),
            socket: root.join("coordinator.sock"),
            workloads: Some(root.join("workloads.sock")),
            managers: Vec::new(),
            tls: None,
            http: None,
            webhook: None,
            workflows: None,
        };
        let (stop, stopped) = oneshot::channel();
        let (started, ready) = std::sync::mpsc::channel();
        let running = std::thread::spawn(move || {
            Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                let coordinator = loop {
                    match Coordinator::start(&config).await {
                        Ok(coordinator) => break coordinator,
                        // A program that another test starts holds this process's lock on the store for a moment,
                        // between fork(2) and execve(2).
                        Err(error)
                            if chain(&error).contains("another process has the store open") =>
                        {
                            std::thread::yield_now();
                        }
                        Err(error) => return started.send(Some(chain(&error))).unwrap(),
                    }
                };
                started.send(None).unwrap();
                let stop = async {
                    let _ = stopped.await;
                };
                coordinator.run_until(stop).await.unwrap();
            });
        });
        match ready.recv_timeout(DEADLINE).unwrap() {
            Some(why) => Err((directory, why)),
            None => {
                Ok(Self { directory: Some(directory), stop: Some(stop), running: Some(running) })
            }
        }
    }

    /// Stops the coordinator, and returns its directory.
    pub(crate) fn stop(mut self) -> TempDir {
        self.end();
        self.directory.take().unwrap()
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(running) = self.running.take()
            && running.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the coordinator panicked");
        }
    }

    /// Returns the command, with the sockets of this coordinator.
    pub(crate) fn warren(&self, arguments: &[&str]) -> Command {
        let mut command = warren(arguments);
        command.env("WARREN_API", format!("unix://{}", self.path("api.sock").display())).env(
            "WARREN_COORDINATOR",
            format!("unix://{}", self.path("coordinator.sock").display()),
        );
        command
    }

    /// Runs a command that must succeed, and returns its standard output.
    pub(crate) fn output(&self, arguments: &[&str]) -> String {
        let assert = self.warren(arguments).assert().success();
        String::from_utf8(assert.get_output().stdout.clone()).unwrap()
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.output(arguments)).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.as_ref().unwrap().path().join(name)
    }

    /// Writes a file with these objects, as YAML documents.
    pub(crate) fn file(&self, name: &str, objects: &[Value]) -> String {
        let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
        self.raw_file(name, documents.join("\n---\n").as_bytes())
    }

    pub(crate) fn raw_file(&self, name: &str, content: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    /// Starts a coordinator with two computes and a mount on the first one.
    pub(crate) fn with_mount() -> Self {
        let this = Self::start();
        let file = this.file("first.yaml", &[configuration(), mount("job", "mounted")]);
        this.warren(&["apply", "-f", &file]).assert().success();
        this
    }
}

impl Drop for StandaloneCoordinator {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns an error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Returns the command without a coordinator.
pub(crate) fn warren(arguments: &[&str]) -> Command {
    let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_warren")));
    command
        .args(arguments)
        .timeout(DEADLINE)
        .env_remove("WARREN_API")
        .env_remove("WARREN_COORDINATOR");
    command.env_remove("KUBECONFIG").env_remove("WARREN_KUBECONFIG");
    command
}

pub(crate) fn configuration() -> Value {
    json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "SystemConfiguration",
        "metadata": {"name": "default", "namespace": "default"},
        "spec": {"portsCooldownInSeconds": 60, "storageNodes": [{"type": "Rabbit", "name": "rabbit-1",
            "computesAccess": [{"name": "compute-1", "index": 0}, {"name": "compute-2", "index": 6}]}]}
    })
}

pub(crate) fn mount(name: &str, desired: &str) -> Value {
    json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "ClientMount",
        "metadata": {"name": name, "namespace": "compute-1",
            "labels": {"dataworkflowservices.github.io/workflow.name": "wf",
                       "dataworkflowservices.github.io/workflow.namespace": "default",
                       "dataworkflowservices.github.io/workflow.uid": "u"}},
        "spec": {"node": "compute-1", "desiredState": desired, "mounts": [{
            "mountPath": format!("/mnt/nnf/{name}"), "setPermissions": false, "options": "", "type": "xfs",
            "targetType": "directory", "device": {"type": "lvm"}}]}
    })
}
