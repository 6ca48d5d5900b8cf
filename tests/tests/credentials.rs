//! A compute that the coordinator serves has no credential of the Kubernetes API, and no connection to a
//! program that has one.

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

/// Reads the secrets of the embedded API: the administrator's token, and the keys that could sign other credentials.
fn secrets(data: &Path) -> anyhow::Result<Vec<Secret>> {
    let text = fs::read(data.join("credentials.json")).context("read the server's credentials")?;
    let credentials: Value = serde_json::from_slice(&text)?;
    let field = |name: &str| {
        credentials[name].as_str().with_context(|| format!("credentials.json has no {name}"))
    };
    // Takes the second line of a key's PEM: the first line is the same for all keys.
    let key = |name| field(name).map(|pem| pem.lines().nth(1).unwrap_or_default().to_owned());
    Ok(vec![
        Secret::new("the admin token", field("token")?),
        Secret::new("the authority's key", &key("ca_key")?),
        Secret::new("the server's key", &key("key")?),
    ])
}

/// Starts a rabbit agent that uses the same API over TLS, so that one program does have a credential.
fn start_credential_holder(fixture: &Fixture) -> anyhow::Result<Program> {
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
fn computes_have_no_credential_of_the_api() -> anyhow::Result<()> {
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
    ensure_each_secret_is_found_in_its_user(&fixture, &secrets)?;
    fixture.run.unmount_from_computes()?;
    fixture.run.wait_for_computes("unmounted")?;
    fixture.run.withdraw_from_computes()?;
    fixture.run.mount_on_rabbit()?;
    fixture.run.tear_down()?;
    fixture.end()
}

/// Checks the search for secrets itself: the search must find each secret in the server that uses the secret,
/// and an open connection.
fn ensure_each_secret_is_found_in_its_user(
    fixture: &Fixture,
    secrets: &[Secret],
) -> anyhow::Result<()> {
    let coordinator = fixture.run.cluster.coordinator()?.pid()?;
    for secret in secrets {
        let found = found_in(coordinator, secret)?;
        ensure!(!found.is_empty(), "{secret} is not found in the server that uses it");
    }
    let holder = start_credential_holder(fixture)?;
    until("the token in a rabbit agent that uses it", PATIENCE, || {
        let pid = holder.pid()?;
        ensure!(!found_in(pid, &secrets[0])?.is_empty(), "the token is not found");
        ensure!(!connections(pid)?.is_empty(), "no connection is found");
        Ok(())
    })
}
