//! Starts a real control plane, runs a command against it, and ends with the command's exit code.
//!
//! `control-plane [--node NAME] COMMAND [ARGUMENT...]`: In the command's environment, `WARREN_KUBE` and `KUBECONFIG`
//! name the administrator's kubeconfig. With `--node`, the directory of that kubeconfig also has one for the node's
//! kubelet; the command must start the kubelet.

use std::process::{Command, ExitCode};

use anyhow::Context;
use control_plane::{ControlPlane, KUBECONFIG, Settings};

fn main() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args_os().skip(1).peekable();
    let node = words.next_if(|word| word == "--node").and_then(|_| words.next());
    let node = node.map(|name| name.into_string().ok().context("--node: a name")).transpose()?;
    let program =
        words.next().context("usage: control-plane [--node NAME] COMMAND [ARGUMENT...]")?;
    let directory = tempfile::Builder::new().prefix("warren-kube-").tempdir()?;
    let plane = ControlPlane::start(directory.path(), Settings { node, ..Settings::default() })?;
    #[expect(clippy::disallowed_methods, reason = "running a command is what this program is for")]
    let status = Command::new(&program)
        .args(words)
        .env(KUBECONFIG, plane.kubeconfig())
        .env("KUBECONFIG", plane.kubeconfig())
        .status()
        .with_context(|| format!("run {}", program.display()))?;
    drop(plane);
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}
