//! A stand-in for the sites' Go daemon on a compute, for tests that replace the daemon by Warren and
//! Warren by the daemon.
//!
//! The stand-in was written from a description of the daemon's outward behaviour, not from the daemon's code. Like the
//! daemon, it resets the status when the desired state changes, adds its finalizer, mounts with mount(8), and replaces
//! whole objects. It differs in two respects: it finds the device of a drive made of files, while the daemon activates
//! a logical volume, and it polls every 50 ms, while the daemon watches.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, bail, ensure};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::{cluster::output, program::command};

const FINALIZER: &str = "nnf.cray.hpe.com/nnf_clientmount";
const PERIOD: Duration = Duration::from_millis(50);

/// Works on the ClientMounts of `node` until the process ends.
///
/// # Errors
/// When the request to the API fails.
pub async fn work(client: Client, node: &str, pool: &Path) -> anyhow::Result<()> {
    let resource = ApiResource::erase::<api::ClientMount>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client, node, &resource);
    loop {
        for object in api.list(&ListParams::default()).await.context("list ClientMounts")? {
            let name = object.name_any();
            if let Err(error) = reconcile(&api, object, pool).await {
                say(&format!("{name}: {error:#}"));
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}

async fn reconcile(
    api: &Api<DynamicObject>,
    mut object: DynamicObject,
    pool: &Path,
) -> anyhow::Result<()> {
    let name = object.name_any();
    let held = object.finalizers().iter().any(|name| name == FINALIZER);
    if object.metadata.deletion_timestamp.is_some() {
        if held {
            apply_all(&object.data["spec"], "unmounted", pool)?;
            object.finalizers_mut().retain(|name| name != FINALIZER);
            api.replace(&name, &PostParams::default(), &object).await.context("release")?;
        }
        return Ok(());
    }
    let spec = object.data["spec"].clone();
    let desired = spec["desiredState"].as_str().context("no desiredState")?.to_owned();
    let count = spec["mounts"].as_array().map_or(0, Vec::len);
    let status = object.data["status"].clone();
    let whole = status["mounts"].as_array().is_some_and(|mounts| mounts.len() == count);
    if !whole || status["mounts"][0]["state"] != desired {
        let entry = json!({"state": desired, "ready": false});
        return write(api, object, json!({"mounts": vec![entry; count], "allReady": false})).await;
    }
    if !held {
        object.finalizers_mut().push(FINALIZER.to_owned());
        api.replace(&name, &PostParams::default(), &object).await.context("hold")?;
        return Ok(());
    }
    let outcome = apply_all(&spec, &desired, pool);
    let entry = json!({"state": desired, "ready": outcome.is_ok()});
    let mut now = json!({"mounts": vec![entry; count], "allReady": outcome.is_ok()});
    if let Err(error) = &outcome {
        now["error"] =
            json!({"debugMessage": format!("{error:#}"), "type": "Internal", "severity": "Major"});
    }
    if now != status {
        write(api, object, now).await?;
    }
    outcome
}

async fn write(
    api: &Api<DynamicObject>,
    mut object: DynamicObject,
    status: Value,
) -> anyhow::Result<()> {
    object.data["status"] = status;
    let name = object.name_any();
    api.replace_status(&name, &PostParams::default(), &object).await.context("write the status")?;
    Ok(())
}

fn apply_all(spec: &Value, desired: &str, pool: &Path) -> anyhow::Result<()> {
    for mount in spec["mounts"].as_array().into_iter().flatten() {
        let path = mount["mountPath"].as_str().context("no mountPath")?;
        let there = mount_source(path)?;
        match (desired, there) {
            ("mounted", None) => {
                fs::create_dir_all(path).context("make the mount point")?;
                let mut line = command("mount");
                line.args(["-t", "xfs", &device(mount, pool)?, path]);
                output(line).context("unable to mount file system")?;
            }
            ("mounted", Some(device_there)) => {
                let wanted = device(mount, pool)?;
                ensure!(device_there == wanted, "unexpected mount at path: {device_there}");
            }
            (_, Some(_)) => {
                let mut line = command("umount");
                line.arg(path);
                output(line).context("unable to unmount file system")?;
                // The Go daemon ignores errors here too.
                drop(fs::remove_dir(path));
            }
            (_, None) => {}
        }
    }
    Ok(())
}

fn mount_source(path: &str) -> anyhow::Result<Option<String>> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("read the mount table")?;
    Ok(mounts.lines().rev().find_map(|line| {
        let (source, rest) = line.split_once(' ')?;
        (rest.split(' ').next() == Some(path)).then(|| source.to_owned())
    }))
}

/// Returns the loop device over a namespace of a drive made of files.
fn device(mount: &Value, pool: &Path) -> anyhow::Result<String> {
    let namespace = &mount["device"]["lvm"]["nvmeInfo"][0];
    let nqn = namespace["deviceSerial"].as_str().context("no deviceSerial")?;
    let drive = nqn.rsplit(':').next().context("no drive in the NQN")?;
    let nsid = namespace["namespaceID"].as_str().context("no namespaceID")?;
    let file = pool.join(drive).join(nsid).join("data");
    let mut line = command("losetup");
    line.args(["-n", "-O", "NAME", "-j"]).arg(&file);
    let device = output(line)?.trim().to_owned();
    if device.is_empty() {
        bail!("no device for {}", file.display());
    }
    Ok(device)
}

#[expect(clippy::print_stderr, reason = "its log")]
fn say(line: &str) {
    eprintln!("{line}");
}
