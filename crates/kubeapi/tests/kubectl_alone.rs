//! Tests with a real kubectl, which reaches the server over TLS with the kubeconfig that the server wrote.
//!
//! `KUBEAPI_KUBECTL` is the path of the kubectl to use. The tests pass with kubectl 1.27 and later versions.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "api/exchange.rs"]
#[expect(dead_code, reason = "shared with the in-process tests, which use all of it")]
mod exchange;
#[path = "api/server.rs"]
#[expect(dead_code, reason = "shared with the in-process tests, which use all of it")]
mod server;
#[path = "api/widget.rs"]
mod widget;

use kubeapi::{Credentials, serve};
use serde_json::json;
use server::Server;
use std::path::PathBuf;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

fn program() -> String {
    std::env::var("KUBEAPI_KUBECTL").unwrap_or_else(|_| "kubectl".to_owned())
}

struct Cluster {
    kubeconfig: PathBuf,
    server: Server,
    stop: oneshot::Sender<()>,
    serving: tokio::task::JoinHandle<()>,
}

/// Result and output of kubectl.
struct CommandOutput {
    ok: bool,
    out: String,
    err: String,
}

impl Cluster {
    async fn start() -> Self {
        let server = Server::start().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let credentials =
            Credentials::load_or_create(server.directory.path(), listener.local_addr().unwrap())
                .unwrap();
        let kubeconfig = server.directory.path().join("kubeconfig");
        credentials.write_kubeconfig(&kubeconfig).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let api = server.api.clone();
        let serving = tokio::spawn(async move {
            let shutdown = async { drop(stopped.await) };
            serve::tls(listener, api, &credentials, shutdown).await.unwrap();
        });
        Self { kubeconfig, server, stop, serving }
    }

    fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(program());
        let home = self.server.directory.path();
        command
            .args(["--namespace", self.server.namespace()])
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", home)
            .kill_on_drop(true);
        command
    }

    async fn kubectl(&self, arguments: &[&str], input: &str) -> CommandOutput {
        let mut command = self.command(arguments);
        command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        CommandOutput {
            ok: output.status.success(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// Runs kubectl, which must succeed, and returns its output.
    async fn ok(&self, arguments: &[&str], input: &str) -> String {
        let output = self.kubectl(arguments, input).await;
        assert!(output.ok, "kubectl {arguments:?}: {}{}", output.out, output.err);
        assert!(!output.err.contains("error"), "kubectl {arguments:?}: {}", output.err);
        output.out
    }

    async fn end(self) {
        self.stop.send(()).unwrap();
        self.serving.await.unwrap();
    }
}

async fn has_kubectl() -> bool {
    let mut command = tokio::process::Command::new(program());
    let found = command.args(["version", "--client", "-o", "json"]).output().await;
    let missing = match &found {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("{}: {}", program(), String::from_utf8_lossy(&output.stderr))),
        Err(error) => Some(format!("{}: {error}: install kubernetes-client", program())),
    };
    gate::open("kubectl", missing.as_deref())
}

#[tokio::test]
async fn kubectl_creates_reads_changes_and_deletes_objects_of_our_kinds() {
    if !has_kubectl().await {
        return;
    }
    let cluster = Cluster::start().await;
    let manifest = |count: u32| {
        let mut object = cluster.server.draft("w1", json!({"node": "n1", "count": count}));
        object["metadata"]["labels"] = json!({"app": "x"});
        object.to_string()
    };

    assert!(
        cluster
            .ok(&["apply", "-f", "-"], &manifest(1))
            .await
            .contains("widget.test.example/w1 created")
    );
    assert!(cluster.ok(&["apply", "-f", "-"], &manifest(1)).await.contains("unchanged"));
    assert!(cluster.ok(&["apply", "-f", "-"], &manifest(2)).await.contains("configured"));
    let table = cluster.ok(&["get", "wd"], "").await;
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(lines.next().unwrap(), ["NAME", "NODE", "READY", "AGE"]);
    assert_eq!(lines.next().unwrap().get(..2).unwrap(), ["w1", "n1"]);
    assert_eq!(cluster.ok(&["get", "wd", "w1", "-o", "jsonpath={.spec.count}"], "").await, "2");
    assert!(cluster.ok(&["get", "widgets", "-l", "app=y"], "").await.is_empty());
    assert!(
        cluster
            .ok(&["get", "widgets", "--field-selector", "spec.node=n1"], "")
            .await
            .contains("w1")
    );
    let description = cluster.ok(&["describe", "widget", "w1"], "").await;
    assert!(
        description.lines().any(|line| line.split_whitespace().eq(["Node:", "n1"])),
        "{description}"
    );
    assert!(cluster.ok(&["get", "wd,cm,secrets", "-A"], "").await.contains("w1"));
    assert!(cluster.ok(&["explain", "widget.spec"], "").await.contains("count"));
    assert!(cluster.ok(&["explain", "widget.spec.items"], "").await.contains("size"));
    assert!(cluster.ok(&["api-resources"], "").await.contains("widgets"));
    assert!(cluster.ok(&["label", "wd", "w1", "b=c"], "").await.contains("labeled"));
    assert!(cluster.ok(&["diff", "-f", "-"], &manifest(2)).await.is_empty());

    let bad = cluster.kubectl(&["apply", "-f", "-"], &manifest(2).replace("\"n1\"", "\"\"")).await;
    assert!(
        !bad.ok && bad.err.contains("spec.node in body should be at least 1 chars long"),
        "{}",
        bad.err
    );
    let unknown = cluster
        .kubectl(&["apply", "-f", "-"], &manifest(2).replace("\"count\"", "\"cuont\""))
        .await;
    let unknown_field = "unknown field \"spec.cuont\"";
    assert!(!unknown.ok && unknown.err.contains(unknown_field), "{}", unknown.err);

    let applied = cluster.kubectl(&["apply", "--server-side", "-f", "-"], &manifest(3)).await;
    assert!(
        !applied.ok && applied.err.contains("does not implement server-side apply"),
        "{}",
        applied.err
    );
    let status = r#"{"status":{"ready":true}}"#;
    cluster
        .ok(&["patch", "wd", "w1", "--subresource=status", "--type=merge", "-p", status], "")
        .await;
    cluster
        .ok(&["wait", "--for=jsonpath={.status.ready}=true", "wd/w1", "--timeout=20s"], "")
        .await;
    assert!(
        cluster
            .ok(&["apply", "--dry-run=server", "-f", "-"], &manifest(9))
            .await
            .contains("server dry run")
    );
    let operation = r#"[{"op":"replace","path":"/spec/count","value":6}]"#;
    cluster.ok(&["patch", "wd", "w1", "--type=json", "-p", operation], "").await;
    let manifest_as_read = cluster.ok(&["get", "wd", "w1", "-o", "yaml"], "").await;
    cluster.ok(&["replace", "-f", "-"], &manifest_as_read.replace("count: 6", "count: 8")).await;
    let second_replace = cluster.kubectl(&["replace", "-f", "-"], &manifest_as_read).await;
    assert!(
        !second_replace.ok && second_replace.err.contains("the object has been modified"),
        "{}",
        second_replace.err
    );

    assert!(cluster.ok(&["delete", "widget", "w1", "--timeout=20s"], "").await.contains("deleted"));
    assert!(cluster.kubectl(&["get", "wd", "w1"], "").await.err.contains("NotFound"));
    cluster.end().await;
}

#[tokio::test]
async fn kubectl_creates_reads_changes_and_deletes_objects_of_builtin_kinds() {
    if !has_kubectl().await {
        return;
    }
    let cluster = Cluster::start().await;
    cluster.ok(&["create", "namespace", "rabbit-1"], "").await;
    cluster.ok(&["-n", "rabbit-1", "create", "configmap", "m", "--from-literal=a=b"], "").await;
    cluster
        .ok(&["-n", "rabbit-1", "create", "secret", "generic", "s", "--from-literal=a=b"], "")
        .await;
    let secret = ["-n", "rabbit-1", "get", "secret", "s", "-o", "jsonpath={.data.a} {.type}"];
    assert_eq!(cluster.ok(&secret, "").await, "Yg== Opaque");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}, "data": {"a": "1"}}).to_string();
    cluster.ok(&["apply", "-f", "-"], &map).await;
    cluster.ok(&["apply", "-f", "-"], &map.replace("\"1\"", "\"2\"")).await;
    assert_eq!(cluster.ok(&["get", "cm", "n", "-o", "jsonpath={.data.a}"], "").await, "2");
    assert!(cluster.ok(&["describe", "ns", "rabbit-1"], "").await.contains("Active"));
    assert!(cluster.ok(&["get", "crd"], "").await.contains("widgets.test.example"));
    cluster
        .ok(
            &["wait", "--for=condition=established", "crd/widgets.test.example", "--timeout=20s"],
            "",
        )
        .await;
    assert!(cluster.ok(&["get", "ns"], "").await.contains("kube-system"));
    assert!(
        cluster.ok(&["delete", "ns", "rabbit-1", "--timeout=20s"], "").await.contains("deleted")
    );
    assert!(!cluster.ok(&["get", "secrets", "-A"], "").await.contains("rabbit-1"));
    cluster.end().await;
}

#[tokio::test]
async fn a_client_without_the_token_is_unauthorized() {
    use k8s_openapi::api::core::v1::Namespace;
    use kube::config::{KubeConfigOptions, Kubeconfig};
    let cluster = Cluster::start().await;
    let kubeconfig = Kubeconfig::read_from(&cluster.kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let namespaces =
        |config: kube::Config| kube::Api::<Namespace>::all(kube::Client::try_from(config).unwrap());
    assert_eq!(
        namespaces(config.clone()).get("default").await.unwrap().metadata.name.as_deref(),
        Some("default")
    );
    for token in [None, Some("wrong".to_owned().into())] {
        config.auth_info.token = token;
        let error = namespaces(config.clone()).get("default").await.unwrap_err();
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 401), "{error}");
    }
    cluster.end().await;
}

#[tokio::test]
async fn kubectl_with_a_wrong_token_is_refused() {
    if !has_kubectl().await {
        return;
    }
    let cluster = Cluster::start().await;
    let output = cluster.kubectl(&["--token=wrong", "get", "ns"], "").await;
    assert!(!output.ok && output.err.contains("must be logged in"), "{}", output.err);
    cluster.end().await;
}

#[tokio::test]
async fn kubectl_get_watch_prints_each_change() {
    use tokio::io::{AsyncBufReadExt, BufReader};
    if !has_kubectl().await {
        return;
    }
    let cluster = Cluster::start().await;
    cluster.server.widget("w1", json!({"node": "n1"})).await;
    let mut child = cluster
        .command(&["get", "wd", "--watch", "--output-watch-events"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || lines.next_line().await.unwrap().unwrap();
    assert!(next().await.starts_with("EVENT"));
    assert!(next().await.starts_with("ADDED"));
    cluster.server.merge("widgets/w1", &json!({"spec": {"count": 4}})).await.expect(200);
    assert!(next().await.starts_with("MODIFIED"));
    cluster.server.delete("widgets/w1", &json!(null)).await.expect(200);
    assert!(next().await.starts_with("DELETED"));
    child.kill().await.unwrap();
    cluster.end().await;
}
