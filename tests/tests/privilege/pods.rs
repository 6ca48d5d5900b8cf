//! Runs the containers of the packaged pods as a kubelet does: with the containers' own arguments, with a
//! service account's files at the paths that they have in a pod, and with the probes. Only ports and
//! writable directories are replaced.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
    time::Duration,
};

use anyhow::{Context, ensure};
use control_plane::{Authority, free_port};
use serde_json::Value;
use tests::{
    cluster::PATIENCE,
    gate,
    program::{Program, binary, command, until},
};

use crate::{identities::HOUR, installed::Installed};

/// Script that, in a new mount namespace, copies the account's files to the paths that they have in a pod,
/// and executes the program.
const KUBELET: &str = r#"set -e
mount -t tmpfs pod /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
cp "$ACCOUNT"/* /run/secrets/kubernetes.io/serviceaccount/
exec "$@""#;

/// Returns a container's command line, in which the program is that of this build.
fn command_line(installed: &Installed, kind: &str, name: &str) -> anyhow::Result<Vec<String>> {
    let text = installed.kubectl(&["get", kind, name, "-n", "nnf-system", "-o", "json"])?;
    let object: Value = serde_json::from_str(&text)?;
    let container = &object["spec"]["template"]["spec"]["containers"][0];
    let words =
        ["command", "args"].iter().filter_map(|field| container[field].as_array()).flatten();
    let mut words: Vec<_> = words.filter_map(Value::as_str).map(str::to_owned).collect();
    let program = words.first_mut().context("a container without command")?;
    *program = binary(program.trim_start_matches("/usr/bin/"))?.display().to_string();
    Ok(words)
}

fn replace_argument(words: &mut [String], old: &str, new: &str) -> anyhow::Result<()> {
    let word = words.iter_mut().find(|word| word.contains(old));
    let word = word.with_context(|| format!("{old} is in no argument"))?;
    *word = word.replace(old, new);
    Ok(())
}

fn start(
    installed: &Installed,
    name: &str,
    token: &str,
    words: &[String],
    variables: &[(&str, &str)],
) -> anyhow::Result<Program> {
    let account = installed.directory.path().join(format!("{name}-account"));
    fs::create_dir_all(&account)?;
    fs::write(account.join("token"), token)?;
    fs::write(account.join("namespace"), "nnf-system")?;
    fs::copy(installed.plane.authority_file(), account.join("ca.crt"))?;
    let mut argv: Command = command("unshare");
    argv.args(["--mount", "--propagation", "private", "--", "/bin/sh", "-c", KUBELET, "kubelet"]);
    argv.args(words).env("ACCOUNT", account).envs(variables.iter().copied());
    argv.env("KUBERNETES_SERVICE_HOST", "127.0.0.1");
    argv.env("KUBERNETES_SERVICE_PORT", installed.plane.port().to_string());
    Program::start(name, &argv, installed.directory.path())
}

fn probe(port: u16, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: kubelet\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

#[test]
fn the_rabbits_pod_becomes_ready_and_a_new_pod_takes_over_its_nnf_node() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let installed = Installed::start("direct", &[])?;
    installed.apply(&[tests::centre::Chassis::new(1).system_configuration()])?;
    let token = runtime.block_on(installed.pod_token("rabbit-1"))?;
    let folder = |name: &str| installed.directory.path().join(name).display().to_string();
    for pod in ["warren-rabbit-agent-abcde", "warren-rabbit-agent-fghij"] {
        let mut words = command_line(&installed, "daemonset", "warren-rabbit-agent")?;
        let port = free_port()?;
        replace_argument(&mut words, ":8081", &format!("127.0.0.1:{port}"))?;
        let (state, mounts, temporary) = (folder("state"), folder("mnt"), folder("temp"));
        let variables = [
            ("WARREN_NODE", "rabbit-1"),
            ("NNF_POD_NAME", pod),
            ("WARREN_STATE_DIR", &state),
            ("WARREN_MOUNT_ROOT", &mounts),
            ("WARREN_TEMP_ROOT", &temporary),
        ];
        let mut agent = start(&installed, "rabbit-pod", &token, &words, &variables)?;
        for path in ["/healthz", "/readyz"] {
            until(path, PATIENCE, || {
                let answer = probe(port, path)
                    .with_context(|| fs::read_to_string(agent.log()).unwrap_or_default())?;
                ensure!(answer.contains("200"), "{answer}");
                Ok(())
            })?;
        }
        until("the NnfNode to name the pod", PATIENCE, || {
            let fields = "jsonpath={.spec.pod} {.status.status}";
            let node = installed
                .kubectl(&["get", "nnfnode", "nnf-nlc", "-n", "rabbit-1", "-o", fields])?;
            ensure!(node.starts_with(pod) && node.len() > pod.len() + 1, "{node}");
            Ok(())
        })?;
        ensure!(agent.stop(PATIENCE)? == 0, "see {}", agent.log().display());
    }
    let refused = installed.plane.audit()?.into_iter().filter(|event| event.code == 403);
    let refused: Vec<_> = refused.filter(|event| event.user.ends_with("warren-rabbit")).collect();
    ensure!(refused.is_empty(), "{refused:?}");
    Ok(())
}

#[test]
fn the_coordinators_pod_logs_nothing_when_a_kubelet_probes_its_port() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let installed = Installed::start("through-coordinator", &[])?;
    let token =
        runtime.block_on(installed.plane.token("nnf-system", "warren-coordinator", HOUR))?;
    let mut words = command_line(&installed, "deployment", "warren-coordinator")?;
    let port = free_port()?;
    replace_argument(&mut words, "0.0.0.0:7443", &format!("127.0.0.1:{port}"))?;
    let secret = installed.directory.path().join("tls");
    write_secret(&secret)?;
    for _ in 0..3 {
        replace_argument(&mut words, "/etc/warren/tls", &secret.display().to_string())?;
    }
    let socket = installed.directory.path().join("coordinator.sock").display().to_string();
    let mut coordinator = start(
        &installed,
        "coordinator-pod",
        &token,
        &words,
        &[("WARREN_COORDINATOR_SOCKET", &socket)],
    )?;
    until("the coordinator to watch", PATIENCE, || {
        let audit = installed.plane.audit()?;
        let watches = audit
            .iter()
            .filter(|event| event.user.ends_with(":warren-coordinator") && event.verb == "watch");
        let log = fs::read_to_string(coordinator.log())?;
        ensure!(watches.count() >= 3 && log.contains("serve"), "not yet: {log}");
        Ok(())
    })?;
    let before = fs::read_to_string(coordinator.log())?.len();
    for _ in 0..20 {
        drop(TcpStream::connect(("127.0.0.1", port))?);
    }
    ensure!(coordinator.stop(PATIENCE)? == 0, "see {}", coordinator.log().display());
    let log = fs::read_to_string(coordinator.log())?;
    let lines: Vec<_> = log[before..].lines().collect();
    ensure!(lines.len() == 1 && lines[0].contains("stop"), "a probe was logged:\n{log}");
    Ok(())
}

/// Writes certificates and a key into a folder, under the names that cert-manager gives them in a Secret.
fn write_secret(folder: &Path) -> anyhow::Result<()> {
    let authority = Authority::new("nodes")?;
    let server = authority.server()?;
    fs::create_dir_all(folder)?;
    fs::write(folder.join("ca.crt"), authority.certificate())?;
    fs::write(folder.join("tls.crt"), &server.certificate)?;
    Ok(fs::write(folder.join("tls.key"), &server.key)?)
}
