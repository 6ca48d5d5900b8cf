//! A compute that is served by the coordinator holds nothing that opens the Kubernetes API, and talks to nobody who has it.

use std::{fs, path::Path};

use anyhow::{Context, ensure};
use serde_json::Value;
use tests::{
    cluster::PATIENCE,
    fixture::Fixture,
    gate,
    program::{Program, binary, command, until},
    secrets::{Secret, connections, found_in},
};

/// Everything secret that the API's server keeps: the token that is admin, and the keys that would sign another.
fn secrets(data: &Path) -> anyhow::Result<Vec<Secret>> {
    let text = fs::read(data.join("credentials.json")).context("read the server's credentials")?;
    let kept: Value = serde_json::from_slice(&text)?;
    let field = |name: &str| kept[name].as_str().with_context(|| format!("no {name} among them"));
    // Of a key, what stands between its first and last line.
    let key = |name| field(name).map(|pem| pem.lines().nth(1).unwrap_or_default().to_owned());
    Ok(vec![
        Secret::new("the admin token", field("token")?),
        Secret::new("the authority's key", &key("ca_key")?),
        Secret::new("the server's key", &key("key")?),
    ])
}

/// A rabbit agent that reaches the same API over TLS: what a holder of a credential looks like.
fn holder(fixture: &Fixture) -> anyhow::Result<Program> {
    let cluster = &fixture.run.cluster;
    let folder = cluster.logs().join("holder");
    fs::create_dir_all(&folder)?;
    let mut argv = command(binary("rabbit-agent")?);
    argv.args(["--node", "rabbit-2", "--file-drives", "1", "--file-drive-capacity", "1MiB"]);
    argv.arg("--api").arg(format!("kubeconfig:{}", cluster.kubeconfig().display()));
    for (flag, name) in [
        ("--file-pool", "pool"),
        ("--state-dir", "state"),
        ("--temp-root", "temp"),
        ("--mount-root", "mnt"),
    ] {
        argv.arg(flag).arg(folder.join(name));
    }
    Program::start("holder", &argv, &cluster.logs())
}

#[test]
fn computes_hold_no_credential_of_the_api() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Fixture::new(2, "raw")?;
    fixture.run.carve_and_mount()?;
    let cluster = &fixture.run.cluster;
    let data = cluster.kubeconfig().parent().context("no folder")?.to_owned();
    let secrets = secrets(&data)?;
    for (compute, _) in &cluster.chassis().computes {
        let pid = cluster.node(compute)?.pid()?;
        for secret in &secrets {
            let places = found_in(pid, secret)?;
            ensure!(places.is_empty(), "{compute} holds {secret}: {places:?}");
        }
        let open = connections(pid)?;
        ensure!(open.is_empty(), "{compute} is connected with {open:?}");
    }
    the_look_is_not_blind(&fixture, &secrets)?;
    fixture.run.unmount_from_computes()?;
    fixture.run.wait_for_computes("unmounted")?;
    fixture.run.withdraw_from_computes()?;
    fixture.run.mount_on_rabbit()?;
    fixture.run.tear_down()?;
    fixture.end()
}

/// The same look finds each secret where it has to be, and a connection where there is one.
fn the_look_is_not_blind(fixture: &Fixture, secrets: &[Secret]) -> anyhow::Result<()> {
    let coordinator = fixture.run.cluster.coordinator()?.pid()?;
    for secret in secrets {
        let found = found_in(coordinator, secret)?;
        ensure!(!found.is_empty(), "{secret} is not found in the server that uses it");
    }
    let holder = holder(fixture)?;
    until("the token in a rabbit agent that uses it", PATIENCE, || {
        let pid = holder.pid()?;
        ensure!(!found_in(pid, &secrets[0])?.is_empty(), "it is not found");
        ensure!(!connections(pid)?.is_empty(), "no connection is found");
        Ok(())
    })
}
