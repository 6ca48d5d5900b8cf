//! Test of a workflow on a real API server. The coordinator that drives it has exactly the rights that are
//! packaged for the engine.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tests::{
    cluster::patience,
    fixture::Fixture,
    gate,
    program::until,
    server::{RealServer, Server},
    workflow::{AFTER_PROPOSAL, Flow},
};

use crate::{
    installed::{Installed, tree},
    life::{COORDINATOR, FOR_COPIES, RABBIT, credentials, judge_refusals},
};

/// Returns true for rights that a workflow with XFS does not use, since they are for Lustre and its copies by MPI,
/// persistent storage, containers, the calls of workload managers, or a coordinator with `--silent-after`.
fn is_unused_by_xfs((verb, resource): (&str, &str)) -> bool {
    let kind = resource.split('/').next().unwrap_or_default();
    ["nnflustremgts", "persistentstorageinstances"].contains(&kind)
        || [("get", "workflows"), ("create", "workflows"), ("delete", "workflows")]
            .contains(&(verb, resource))
        || [("create", "nnfcontainerprofiles"), ("patch", "nnfdatamovements/status")]
            .contains(&(verb, resource))
        || [("get", "computes"), ("patch", "computes"), ("patch", "nnfnodestorages")]
            .contains(&(verb, resource))
        || (verb, resource) == ("patch", "storages")
}

#[test]
fn the_engine_has_the_rights_that_a_workflow_needs_and_uses_each() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let installed = Installed::start("with-engine", &[])?;
    let roles = runtime.block_on(credentials(&installed))?.roles;
    let server = Server::Real(RealServer::with_roles(installed.plane.kubeconfig(), roles));
    let mut flow = Flow::on(Fixture::with_engine_on(server, 2)?, "life")?;
    let site = flow.fixture.run.cluster.global();
    std::fs::write(site.join("input"), "data")?;
    let copy_in =
        format!("#DW copy_in source={}/input destination=$DW_JOB_scratch/", site.display());
    flow.create(&["#DW jobdw type=xfs capacity=320MiB name=scratch", &copy_in])?;
    flow.wait("Proposal", "Completed")?;
    flow.fill_computes()?;
    for state in AFTER_PROPOSAL {
        flow.reach(state)?;
    }
    flow.delete()?;
    flow.create(&["#DW persistentdw name=nowhere"])?;
    flow.wait("Proposal", "Error")?;
    until("an Event of the failure", patience(), || {
        let arguments = [
            "get",
            "events",
            "--field-selector",
            "reason=StateFailed",
            "-o",
            "jsonpath={..note}{..message}",
        ];
        let events = installed.kubectl(&arguments)?;
        ensure!(events.contains("Proposal: ") && events.contains("nowhere"), "{events:?}");
        Ok(())
    })?;
    flow.delete()?;
    taints_drain_a_rabbit(&installed)?;
    system_storage_lives(&installed, &flow)?;
    flow.end()?;
    let audit = installed.plane.audit()?;
    judge_refusals(&audit)?;
    let used: BTreeSet<(&str, &str)> = audit
        .iter()
        .filter(|event| event.user == COORDINATOR)
        .map(|event| (event.verb.as_str(), event.resource.as_str()))
        .collect();
    let granted = granted()?;
    let unused: Vec<_> = granted
        .iter()
        .map(|(verb, resource)| (verb.as_str(), resource.as_str()))
        .filter(|right| !used.contains(right) && !is_unused_by_xfs(*right))
        .collect();
    ensure!(unused.is_empty(), "the engine does not use its rights {unused:?}; it used {used:?}");
    for (verb, resource) in FOR_COPIES {
        let plural = resource.split_once('/').map_or("", |(_, plural)| plural);
        let mut by_rabbit = audit.iter().filter(|event| event.user == RABBIT);
        let is_used = by_rabbit.any(|event| (&*event.verb, &*event.resource) == (verb, plural));
        ensure!(is_used, "the rabbit copied without its right to {verb} {resource}");
    }
    Ok(())
}

/// Creates a system storage, and deletes it once it is ready.
fn system_storage_lives(installed: &Installed, flow: &Flow) -> anyhow::Result<()> {
    let api = "nnf.cray.hpe.com/v1alpha11";
    let mut data = flow.object("nnfstorageprofile", "default", "nnf-system")?["data"].clone();
    (data["pinned"], data["default"]) = (json!(true), json!(false));
    let profile = json!({"kind": "NnfStorageProfile", "name": "system", "namespace": "nnf-system"});
    installed.apply(&[
        json!({"apiVersion": api, "kind": "NnfStorageProfile", "data": data,
            "metadata": {"name": "system", "namespace": "nnf-system"}}),
        json!({"apiVersion": api, "kind": "NnfSystemStorage",
            "metadata": {"name": "lock", "namespace": "default"},
            "spec": {"capacity": 64 << 20, "storageProfile": profile}}),
    ])?;
    until("the system storage", patience(), || {
        let storage = flow.object("nnfsystemstorage", "lock", "default")?;
        ensure!(storage["status"]["ready"] == true, "not yet: {}", storage["status"]);
        Ok(())
    })?;
    installed.kubectl(&["delete", "nnfsystemstorage", "lock", "-n", "default"])?;
    flow.nothing_is_left()
}

/// Checks that a taint, as `kubectl taint` and the sites' `nnf rabbit drain` set it, appears in the rabbit's Storage
/// object, which workload managers read.
fn taints_drain_a_rabbit(installed: &Installed) -> anyhow::Result<()> {
    let rabbit = |wanted: [&str; 2]| {
        until("the rabbit's Storage", patience(), || {
            let storage = installed.kubectl(&["get", "storage", "rabbit-1", "-o", "json"])?;
            let status = &serde_json::from_str::<Value>(&storage)?["status"];
            let shown = [&status["status"], &status["message"]];
            let shown = shown.map(|text| text.as_str().unwrap_or_default());
            ensure!(shown == wanted, "{shown:?}, expected {wanted:?}");
            Ok(())
        })
    };
    rabbit(["Ready", ""])?;
    installed.apply(&[json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "rabbit-1"},
        "spec": {"taints": [{"key": "cray.nnf.node.drain", "value": "true", "effect": "NoSchedule"}]},
    })])?;
    rabbit(["Drained", "Kubernetes node is tainted with cray.nnf.node.drain"])?;
    installed.kubectl(&["taint", "node", "rabbit-1", "cray.nnf.node.drain-"])?;
    rabbit(["Ready", ""])
}

/// Returns verbs and resources of the engine's role, without the resources `/finalizers`. No request names these; the
/// server checks the right to them when a write has an owner reference with `blockOwnerDeletion`.
fn granted() -> anyhow::Result<Vec<(String, String)>> {
    let text = std::fs::read_to_string(tree("packaging/kubernetes/engine/engine-access.yaml"))?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).context("decode YAML")?;
    let rules = documents[0]["rules"].as_array().context("rules")?;
    let words = |rule: &Value, field: &str| -> Vec<String> {
        let list = rule[field].as_array().cloned().unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut granted = Vec::new();
    for rule in rules {
        for resource in words(rule, "resources") {
            if !resource.ends_with("/finalizers") {
                granted
                    .extend(words(rule, "verbs").into_iter().map(|verb| (verb, resource.clone())));
            }
        }
    }
    ensure!(granted.len() > 20, "the role has only {granted:?}");
    Ok(granted)
}
