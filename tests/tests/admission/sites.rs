//! Checks that a cluster with the CRDs of DWS and NNF, which sites have, accepts all objects that Warren writes.

use std::{fs, path::Path};

use anyhow::{Context, bail, ensure};
use api::{
    ClientMount, Computes, DWDirectiveRule, DirectiveBreakdown, NnfContainerProfile, NnfLustreMgt,
    NnfNode, NnfNodeBlockStorage, NnfNodeStorage, NnfPortManager, NnfStorageProfile,
    NnfSystemStorage, PersistentStorageInstance, Servers, Storage, SystemConfiguration,
    SystemStatus, Workflow,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tests::{api_server::ApiServer, gate};

/// Decodes the object as `T` and encodes it again, as our programs do.
fn reencode<T: DeserializeOwned + Serialize>(object: Value) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_value::<T>(object)?)
}

/// Returns the object as our programs write it; `None` for a kind that they do not write to a site's CRD.
fn as_written(object: Value) -> Option<serde_json::Result<Value>> {
    Some(match object["kind"].as_str()? {
        "ClientMount" => reencode::<ClientMount>(object),
        "Computes" => reencode::<Computes>(object),
        "DWDirectiveRule" => reencode::<DWDirectiveRule>(object),
        "DirectiveBreakdown" => reencode::<DirectiveBreakdown>(object),
        "NnfContainerProfile" => reencode::<NnfContainerProfile>(object),
        "NnfLustreMGT" => reencode::<NnfLustreMgt>(object),
        "NnfNode" => reencode::<NnfNode>(object),
        "NnfNodeBlockStorage" => reencode::<NnfNodeBlockStorage>(object),
        "NnfNodeStorage" => reencode::<NnfNodeStorage>(object),
        "NnfPortManager" => reencode::<NnfPortManager>(object),
        "NnfStorageProfile" => reencode::<NnfStorageProfile>(object),
        "NnfSystemStorage" => reencode::<NnfSystemStorage>(object),
        "PersistentStorageInstance" => reencode::<PersistentStorageInstance>(object),
        "Servers" => reencode::<Servers>(object),
        "Storage" => reencode::<Storage>(object),
        "SystemConfiguration" => reencode::<SystemConfiguration>(object),
        "SystemStatus" => reencode::<SystemStatus>(object),
        "Workflow" => reencode::<Workflow>(object),
        _ => return None,
    })
}

/// Reads the API crate's fixtures; each object is named after its file.
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
        Ok(_) => bail!("the server did not refuse {object}"),
        Err(error) => Ok(format!("{error:#}")),
    }
}

#[test]
fn a_cluster_with_the_sites_crds_accepts_every_kind_that_warren_writes() -> anyhow::Result<()> {
    if !gate::real_server() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let server = ApiServer::real(directory.path())?;
    server.install_crds(|crd| *crd = site_rules::strict(vec![crd.take()]).remove(0))?;
    let mut created = 0;
    for object in fixtures()?.into_iter().filter_map(as_written) {
        let object = object?;
        server.create(&object)?;
        if object["status"].is_object() && object["kind"] != "Workflow" {
            server.patch(&object, &json!({"status": object["status"]}), true)?;
        }
        created += 1;
    }
    ensure!(created > 20, "only {created} objects");
    port_manager_needs_its_lists(&server)
}

/// Checks that the CRDs are as strict as a site's. They must refuse an NnfPortManager without its lists: with such an
/// object, no container with ports would start at a site. They must accept the NnfPortManager that Warren writes today.
fn port_manager_needs_its_lists(server: &ApiServer) -> anyhow::Result<()> {
    let mut ports = json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfPortManager",
        "metadata": {"name": "nnf-port-manager", "namespace": "default"},
        "spec": {"systemConfiguration": {"kind": "SystemConfiguration", "name": "default", "namespace": "default"}},
    });
    let why = refusal(server, &ports)?;
    ensure!(why.contains("spec.allocations: Required value"), "{why}");
    ports = as_written(ports).context("a kind of ours")??;
    server.create(&ports).map(drop)
}
