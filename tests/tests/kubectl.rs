//! Tests with a real kubectl on the embedded API, over TLS, with the kubeconfig that the coordinator wrote.

use std::{os::unix::fs::PermissionsExt, process::Command};

use anyhow::{Context, ensure};
use tests::{
    cluster::{Cluster, output},
    fixture::Fixture,
    gate,
    program::command,
};

fn kubectl(cluster: &Cluster, words: &[&str]) -> anyhow::Result<String> {
    let mut argv: Command = command("kubectl");
    argv.arg("--kubeconfig").arg(cluster.kubeconfig()).args(words);
    // Sets another home directory: kubectl caches the API's discovery documents there, by host and port.
    argv.env("HOME", cluster.logs());
    output(argv).with_context(|| format!("kubectl {}", words.join(" ")))
}

#[test]
fn kubectl_lists_describes_applies_and_deletes_our_kinds() -> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::kubectl() {
        return Ok(());
    }
    let mut fixture = Fixture::new(1, "raw")?;
    let mode = std::fs::metadata(fixture.run.cluster.kubeconfig())?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "the kubeconfig's mode is {mode:o}");
    fixture.run.carve()?;
    fixture.run.wait_for_file_systems()?;
    let cluster = &fixture.run.cluster;
    let kinds = kubectl(cluster, &["api-resources", "-o", "name"])?;
    for kind in [
        "clientmounts",
        "nnfnodestorages",
        "nnfnodeblockstorages",
        "nnfstorageprofiles",
        "nnflustremgts",
    ] {
        ensure!(kinds.contains(kind), "{kind} is not in\n{kinds}");
    }
    let table = kubectl(cluster, &["get", "nnfnodestorages", "-A"])?;
    ensure!(table.contains("READY") && table.contains("true"), "{table}");
    let name = fixture.run.job.node_storage();
    let described = kubectl(cluster, &["describe", "nnfnodestorage", &name, "-n", "rabbit-1"])?;
    ensure!(described.contains("File System Type:  raw"), "{described}");
    let file = cluster.logs().join("profile.json");
    let mut profile = fixture.run.job.profile();
    profile["metadata"]["name"] = "by-kubectl".into();
    std::fs::write(&file, serde_json::to_vec(&profile)?)?;
    let file = file.display().to_string();
    ensure!(kubectl(cluster, &["apply", "-f", &file])?.contains("created"), "apply");
    ensure!(kubectl(cluster, &["apply", "-f", &file])?.contains("unchanged"), "apply again");
    ensure!(kubectl(cluster, &["delete", "-f", &file])?.contains("deleted"), "delete");
    let refused = kubectl(cluster, &["get", "clientmounts", "nowhere", "-n", "compute-1"]);
    ensure!(
        refused.is_err_and(|error| format!("{error:#}").contains("NotFound")),
        "a missing object is NotFound"
    );
    Ok(())
}

#[test]
fn the_api_refuses_a_client_without_the_token() -> anyhow::Result<()> {
    if !gate::loop_devices() || !gate::kubectl() {
        return Ok(());
    }
    let fixture = Fixture::new(1, "raw")?;
    let cluster = &fixture.run.cluster;
    let config = std::fs::read_to_string(cluster.kubeconfig())?;
    let stranger = cluster.logs().join("stranger");
    let without: Vec<_> = config
        .lines()
        .map(|line| if line.trim_start().starts_with("token") { "    token: guess" } else { line })
        .collect();
    std::fs::write(&stranger, without.join("\n"))?;
    let mut argv = command("kubectl");
    argv.arg("--kubeconfig").arg(&stranger).args(["get", "namespaces"]).env("HOME", cluster.logs());
    let refused = output(argv);
    ensure!(
        refused.is_err_and(|error| error.to_string().contains("Unauthorized")
            || error.to_string().contains("logged in")),
        "the API accepted a wrong token"
    );
    let other = cluster.run_on_host_as(1050, &format!("cat {}", cluster.kubeconfig().display()));
    ensure!(other.is_err(), "another user read the kubeconfig");
    Ok(())
}
