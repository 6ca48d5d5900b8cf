//! A cluster with the sites' own CRDs takes what Warren writes.

use std::{fs, path::Path};

use anyhow::{Context, bail, ensure};
use api::{
    ClientMount, Computes, DWDirectiveRule, DirectiveBreakdown, NnfContainerProfile, NnfLustreMgt,
    NnfNode, NnfNodeBlockStorage, NnfNodeStorage, NnfPortManager, NnfStorageProfile,
    PersistentStorageInstance, Servers, Storage, SystemConfiguration, SystemStatus, Workflow,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tests::{api_server::ApiServer, gate};

fn through<T: DeserializeOwned + Serialize>(object: Value) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_value::<T>(object)?)
}

/// Returns the object as our programs write it; `None` for a kind that they do not write to a site's CRD.
fn written(object: Value) -> Option<serde_json::Result<Value>> {
    Some(match object["kind"].as_str()? {
        "ClientMount" => through::<ClientMount>(object),
        "Computes" => through::<Computes>(object),
        "DWDirectiveRule" => through::<DWDirectiveRule>(object),
        "DirectiveBreakdown" => through::<DirectiveBreakdown>(object),
        "NnfContainerProfile" => through::<NnfContainerProfile>(object),
        "NnfLustreMGT" => through::<NnfLustreMgt>(object),
        "NnfNode" => through::<NnfNode>(object),
        "NnfNodeBlockStorage" => through::<NnfNodeBlockStorage>(object),
        "NnfNodeStorage" => through::<NnfNodeStorage>(object),
        "NnfPortManager" => through::<NnfPortManager>(object),
        "NnfStorageProfile" => through::<NnfStorageProfile>(object),
        "PersistentStorageInstance" => through::<PersistentStorageInstance>(object),
        "Servers" => through::<Servers>(object),
        "Storage" => through::<Storage>(object),
        "SystemConfiguration" => through::<SystemConfiguration>(object),
        "SystemStatus" => through::<SystemStatus>(object),
        "Workflow" => through::<Workflow>(object),
        _ => return None,
    })
}

/// Reads one object of each kind and case, under the name of its file.
fn fixtures() -> anyhow::Result<Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/api/fixtures");
    let mut found = Vec::new();
    for file in fs::read_dir(folder).context("list the fixtures")? {
        let path = file?.path();
        let mut object: Value = serde_saphyr::from_str(&fs::read_to_string(&path)?)?;
        let name = path.file_stem().context("a file's name")?.to_string_lossy().into_owned();
        object["metadata"] = json!({"name": name, "namespace": "default"});
        found.push(object);
    }
    Ok(found)
}

/// Returns why the server refuses the object.
fn refusal(server: &ApiServer, object: &Value) -> anyhow::Result<String> {
    match server.create(object) {
        Ok(_) => bail!("it was not refused: {object}"),
        Err(error) => Ok(format!("{error:#}")),
    }
}

#[test]
fn a_cluster_with_the_sites_crds_takes_every_kind_that_we_write() -> anyhow::Result<()> {
    if !gate::real_server() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let server = ApiServer::real(directory.path())?;
    server.install_crds(|crd| *crd = site_rules::strict(vec![crd.take()]).remove(0))?;
    let mut taken = 0;
    for object in fixtures()?.into_iter().filter_map(written) {
        let object = object?;
        server.create(&object)?;
        if object["status"].is_object() && object["kind"] != "Workflow" {
            server.patch(&object, &json!({"status": object["status"]}), true)?;
        }
        taken += 1;
    }
    ensure!(taken > 20, "only {taken} objects");
    ports_need_their_lists(&server)
}

/// The CRDs are strict: they refuse the object with which no container with ports started at a site, and take today's.
fn ports_need_their_lists(server: &ApiServer) -> anyhow::Result<()> {
    let mut ports = json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfPortManager",
        "metadata": {"name": "nnf-port-manager", "namespace": "default"},
        "spec": {"systemConfiguration": {"kind": "SystemConfiguration", "name": "default", "namespace": "default"}},
    });
    let why = refusal(server, &ports)?;
    ensure!(why.contains("spec.allocations: Required value"), "{why}");
    ports = written(ports).context("a kind of ours")??;
    server.create(&ports).map(drop)
}
