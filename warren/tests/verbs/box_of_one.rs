//! A standalone coordinator in a thread, and the command pointed at it.

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

pub(crate) struct BoxOfOne {
    directory: TempDir,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
}

impl BoxOfOne {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let standalone = Standalone {
            data_dir: root.join("data"),
            socket: root.join("api.sock"),
            listen: "127.0.0.1:0".parse().unwrap(),
            kubeconfig: root.join("kubeconfig"),
        };
        let config = Config {
            backend: Backend::Standalone(standalone),
            socket: root.join("coordinator.sock"),
            tls: None,
        };
        let (stop, stopped) = oneshot::channel();
        let (started, ready) = std::sync::mpsc::channel();
        let running = std::thread::spawn(move || {
            Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                let coordinator = Coordinator::start(&config).await.unwrap();
                started.send(()).unwrap();
                let stop = async {
                    let _ = stopped.await;
                };
                coordinator.run_until(stop).await.unwrap();
            });
        });
        ready.recv_timeout(DEADLINE).unwrap();
        Self { directory, stop: Some(stop), running: Some(running) }
    }

    /// The command, talking to this box.
    pub(crate) fn warren(&self, arguments: &[&str]) -> Command {
        let mut command = warren(arguments);
        command.env("WARREN_API", format!("unix://{}", self.path("api.sock").display())).env(
            "WARREN_COORDINATOR",
            format!("unix://{}", self.path("coordinator.sock").display()),
        );
        command
    }

    /// Standard output of a command that succeeds.
    pub(crate) fn output(&self, arguments: &[&str]) -> String {
        let assert = self.warren(arguments).assert().success();
        String::from_utf8(assert.get_output().stdout.clone()).unwrap()
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.output(arguments)).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A file with these objects, as YAML documents.
    pub(crate) fn file(&self, name: &str, objects: &[Value]) -> String {
        let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
        self.raw_file(name, documents.join("\n---\n").as_bytes())
    }

    pub(crate) fn raw_file(&self, name: &str, content: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    /// Two computes and a mount on the first.
    pub(crate) fn with_mount() -> Self {
        let this = Self::start();
        let file = this.file("first.yaml", &[configuration(), mount("job", "mounted")]);
        this.warren(&["apply", "-f", &file]).assert().success();
        this
    }
}

impl Drop for BoxOfOne {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(running) = self.running.take()
            && running.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the coordinator panicked");
        }
    }
}

/// The command without a box.
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
