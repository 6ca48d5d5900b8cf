//! Test of the rights of flux-coral2: its service and commands make every call with the packaged account, by the oldest and
//! the newest version of the Kubernetes client for Python with which the service works.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use tests::{
    cluster::PATIENCE,
    gate,
    program::{command, until},
};

use crate::installed::{Installed, run, tree};

const FOLDER: &str = "packaging/kubernetes/flux-coral2";
const ACCOUNT: &str = "system:serviceaccount:nnf-system:flux-coral2";

/// Verb and resource, as in `get pods/log`.
type Rights = BTreeSet<(String, String)>;

#[test]
fn flux_coral2_uses_every_right_of_its_account_and_needs_no_other() -> anyhow::Result<()> {
    let Some(pythons) = gate::python_kubernetes_of_coral2() else { return Ok(()) };
    let installed = Installed::bare()?;
    installed.apply_folder(FOLDER)?;
    let kubeconfig = installed.kubeconfig("flux", &packaged_token(&installed)?)?;
    let mut refused = 0;
    for python in &pythons {
        let answer = calls(python, &kubeconfig, &installed)?;
        let beyond = answer["beyond"].as_object().context("beyond")?;
        ensure!(beyond.len() > 8 && beyond.values().all(|status| *status == 403), "{answer}");
        refused = beyond.len();
        let kinds =
            "storages,systemconfigurations,systemstatuses,directivebreakdowns,servers,computes";
        installed.kubectl(&["delete", kinds, "--all", "-n", "default"])?;
    }
    let mut own = installed.plane.audit()?;
    own.retain(|event| event.user == ACCOUNT);
    let (denied, allowed): (Vec<_>, Vec<_>) = own.iter().partition(|event| event.code == 403);
    // The audit log has a request for a log twice: at its begin and at its end.
    let denied: BTreeSet<String> =
        denied.iter().map(|event| format!("{} {}", event.verb, event.uri)).collect();
    ensure!(denied.len() == refused, "{refused} calls beyond, and refused were {denied:#?}");
    let used: Rights =
        allowed.iter().map(|event| (event.verb.clone(), event.resource.clone())).collect();
    let granted = granted()?;
    ensure!(used == granted, "used {used:?}, granted {granted:?}");
    Ok(())
}

/// Returns the token in the packaged Secret, which the control plane fills in.
fn packaged_token(installed: &Installed) -> anyhow::Result<String> {
    let words =
        ["get", "secret", "flux-coral2", "-n", "nnf-system", "-o", "jsonpath={.data.token}"];
    let mut token = String::new();
    until("the token of flux-coral2", PATIENCE, || {
        token = installed.kubectl(&words)?;
        ensure!(!token.is_empty(), "not yet");
        Ok(())
    })?;
    Ok(String::from_utf8(STANDARD.decode(token)?)?)
}

/// Runs `calls.py` with the account's kubeconfig, and decodes its output.
fn calls(python: &Path, kubeconfig: &Path, installed: &Installed) -> anyhow::Result<Value> {
    let mut argv = command(python);
    argv.arg("-B").arg(tree("tests/tests/coral2/calls.py")).arg(kubeconfig);
    argv.arg(installed.plane.kubeconfig()).arg("1");
    let printed = run(argv, "").with_context(|| python.display().to_string())?;
    serde_json::from_str(&printed).context("decode the output of python")
}

/// Returns the rights in the packaged roles.
fn granted() -> anyhow::Result<Rights> {
    let text = fs::read_to_string(tree(FOLDER).join("flux-access.yaml"))?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).context("decode YAML")?;
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let rules = objects.iter().flat_map(|object| object["rules"].as_array().into_iter().flatten());
    let rights = rules.flat_map(|rule| {
        let resources = texts(&rule["resources"]);
        texts(&rule["verbs"]).into_iter().flat_map(move |verb| {
            resources.clone().into_iter().map(move |resource| (verb.clone(), resource))
        })
    });
    Ok(rights.collect())
}
