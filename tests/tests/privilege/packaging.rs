//! The chart and the kustomizations are two ways to the same objects.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tests::program::command;

use crate::installed::{Installed, run, tree};

/// Objects by apiVersion, kind, namespace and name.
type Objects = BTreeMap<String, Value>;

fn objects(text: &str) -> anyhow::Result<Objects> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("decode YAML")?;
    let key = |object: &Value| {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
        ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"].map(text).join(" ")
    };
    let count = documents.iter().filter(|object| !object.is_null()).count();
    let objects: Objects = documents
        .into_iter()
        .filter(|object| !object.is_null())
        .map(|object| (key(&object), object))
        .collect();
    ensure!(objects.len() == count, "an object appears twice");
    Ok(objects)
}

/// The first place where two objects differ.
fn difference(at: &str, ours: &Value, theirs: &Value) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(one), Value::Object(other)) => one
            .keys()
            .chain(other.keys())
            .find_map(|key| difference(&format!("{at}/{key}"), &ours[key], &theirs[key])),
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => (0..one.len())
            .find_map(|place| difference(&format!("{at}/{place}"), &one[place], &other[place])),
        _ if ours == theirs => None,
        _ => Some(format!("{at}: kustomize has {ours}, helm has {theirs}")),
    }
}

fn kustomized(variant: &str) -> anyhow::Result<Objects> {
    let mut argv = command(control_plane::Assets::find()?.kubectl());
    argv.arg("kustomize").arg(tree("packaging/kubernetes").join(variant));
    objects(&run(argv, "").context("kubectl kustomize")?)
}

/// helm lists what a chart makes without a cluster, as for a server of its own version.
fn helm(words: &[&str]) -> anyhow::Result<String> {
    let program =
        std::env::var_os("WARREN_HELM").context("WARREN_HELM names no helm: run `make kube`")?;
    let mut argv = command(program);
    argv.args(["template", "warren"]).arg(tree("packaging/kubernetes/chart")).args(words);
    run(argv, "").with_context(|| format!("helm template {}", words.join(" ")))
}

#[test]
fn the_chart_makes_the_objects_of_the_kustomizations() -> anyhow::Result<()> {
    for (variant, values) in [
        ("direct", "mode=direct"),
        ("through-coordinator", "mode=coordinator"),
        (
            "with-engine",
            "mode=coordinator,coordinator.workflows=true,coordinator.webhookCaBundle=Q0E=",
        ),
    ] {
        let (ours, mut theirs) = (kustomized(variant)?, objects(&helm(&["--set", values])?)?);
        leave_the_authority_to_cert_manager(&mut theirs);
        ensure!(ours.len() > 12, "{variant} has only {:?}", ours.keys());
        for key in ours.keys().chain(theirs.keys()) {
            let (ours, theirs) = (ours.get(key), theirs.get(key));
            let (ours, theirs) =
                (ours.cloned().unwrap_or_default(), theirs.cloned().unwrap_or_default());
            let difference = difference(key, &ours, &theirs);
            ensure!(difference.is_none(), "{variant}: {}", difference.unwrap_or_default());
        }
    }
    Ok(())
}

/// The chart is given the authority of the webhooks; in the kustomization cert-manager fills it in, asked by an annotation.
fn leave_the_authority_to_cert_manager(objects: &mut Objects) {
    let kinds = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];
    let is_webhook = |object: &&mut Value| kinds.iter().any(|kind| object["kind"] == *kind);
    for object in objects.values_mut().filter(is_webhook) {
        let secret = "nnf-system/warren-coordinator-tls";
        object["metadata"]["annotations"] =
            json!({"cert-manager.io/inject-ca-from-secret": secret});
        for webhook in object["webhooks"].as_array_mut().into_iter().flatten() {
            webhook["clientConfig"].as_object_mut().map(|client| client.remove("caBundle"));
        }
    }
}

#[test]
fn the_chart_tells_the_api_server_to_ask_the_coordinator() -> anyhow::Result<()> {
    let words = ["--set", "mode=coordinator,coordinator.webhookCaBundle=Q0E="];
    let made = objects(&helm(&words)?)?;
    let named = |kind: &str, name: &str| {
        let is_named =
            |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        made.values().find(is_named).with_context(|| format!("{kind} {name} in {:?}", made.keys()))
    };
    let webhook = &named("ValidatingWebhookConfiguration", "warren")?["webhooks"][0];
    ensure!(webhook["clientConfig"]["caBundle"] == "Q0E=", "{webhook}");
    ensure!(webhook["clientConfig"]["service"]["name"] == "warren-webhook", "{webhook}");
    let port = &named("Service", "warren-webhook")?["spec"]["ports"][0];
    let pod = &named("Deployment", "warren-coordinator")?["spec"]["template"]["spec"];
    let ports = pod["containers"][0]["ports"].as_array().context("ports")?;
    ensure!(ports.iter().any(|named| named["name"] == port["targetPort"]), "{ports:?}");
    Ok(())
}

#[test]
fn sites_tools_find_the_rabbits_pods_by_their_label() -> anyhow::Result<()> {
    let path = tree("packaging/kubernetes/base/rabbit-agent.yaml");
    let objects = objects(&std::fs::read_to_string(path)?)?;
    let daemon_set =
        objects.values().find(|object| object["kind"] == "DaemonSet").context("DaemonSet")?;
    for metadata in ["/metadata", "/spec/template/metadata"] {
        let labels = daemon_set.pointer(&format!("{metadata}/labels")).context("labels")?;
        ensure!(labels["cray.nnf.node"] == "true", "{metadata} has {labels}");
    }
    Ok(())
}

#[test]
fn the_chart_leaves_policies_out_where_the_server_has_none() -> anyhow::Result<()> {
    for (words, there) in [
        (&["--kube-version", "1.29.9"][..], false),
        (&["--kube-version", "1.30.0"], true),
        (&["--kube-version", "1.29.9", "--set", "policy=always"], true),
        (&["--set", "policy=never"], false),
    ] {
        let made = objects(&helm(words)?)?;
        let policies = made.keys().filter(|key| key.contains("ValidatingAdmissionPolicy")).count();
        ensure!(policies == if there { 4 } else { 0 }, "{words:?}: {policies} policies");
    }
    Ok(())
}

#[test]
fn values_of_a_site_reach_every_place_that_names_them() -> anyhow::Result<()> {
    let made = helm(&[
        "--set",
        "mode=coordinator,namespace=storage,nodesNamespace=identities,image.repository=site/warren,image.tag=v2",
    ])?;
    ensure!(!made.contains("nnf-system") && !made.contains("warren-nodes"), "{made}");
    ensure!(made.matches("image: \"site/warren:v2\"").count() == 2, "{made}");
    let direct =
        helm(&["--set", "nodesNamespace=identities,profileNamespaces={default,projects}"])?;
    // Profiles and jobs, in each of the two namespaces.
    ensure!(direct.matches("system:serviceaccounts:identities").count() == 4, "{direct}");
    let unasked = helm(&["--set", "mode=coordinator,coordinator.workflows=true"]).unwrap_err();
    ensure!(format!("{unasked:#}").contains("needs coordinator.webhookCaBundle"), "{unasked:#}");
    let wrong = helm(&["--set", "mode=sideways"]).unwrap_err();
    ensure!(format!("{wrong:#}").contains("'direct', 'coordinator'"), "{wrong:#}");
    Ok(())
}

/// On a server: what was made goes again, and what was there before stays.
#[test]
fn the_chart_is_installed_changed_and_removed() -> anyhow::Result<()> {
    let installed = Installed::bare()?;
    let helm = |words: &[&str]| {
        let program = std::env::var_os("WARREN_HELM").context("WARREN_HELM names no helm")?;
        let mut argv = command(program);
        argv.args(words).args(["--namespace", "nnf-system", "--kubeconfig"]);
        argv.arg(installed.plane.kubeconfig()).env("HOME", installed.directory.path());
        run(argv, "").with_context(|| format!("helm {}", words.join(" ")))
    };
    let chart = tree("packaging/kubernetes/chart").display().to_string();
    let ours = || {
        let kinds = "deployments,daemonsets,clusterroles,validatingadmissionpolicies";
        let label = "app.kubernetes.io/name=warren";
        installed.kubectl(&["get", kinds, "-A", "-l", label, "-o", "name"])
    };
    helm(&["install", "warren", &chart])?;
    let direct = ours()?;
    ensure!(
        direct.contains("warren-compute") && direct.contains("warren-own-namespace"),
        "{direct}"
    );
    helm(&["upgrade", "warren", &chart, "--set", "mode=coordinator"])?;
    let through = ours()?;
    ensure!(
        through.contains("warren-coordinator") && !through.contains("warren-compute"),
        "{through}"
    );
    helm(&["uninstall", "warren"])?;
    let left = ours()?;
    ensure!(left.is_empty(), "left behind: {left}");
    installed.kubectl(&["get", "namespace", "nnf-system"]).map(drop)
}

/// The arguments of a container are flags that its program has: a name that is no name is all that is left to complain of.
#[test]
fn containers_start_our_programs_with_flags_they_have() -> anyhow::Result<()> {
    let made = kustomized("through-coordinator")?;
    for (key, bad, complaint) in [
        ("apps/v1 DaemonSet nnf-system warren-rabbit-agent", &["--node", "a b"][..], "\"a b\""),
        ("apps/v1 Deployment nnf-system warren-coordinator", &["--socket"], "--socket"),
    ] {
        let container = &made[key]["spec"]["template"]["spec"]["containers"][0];
        let words = |field: &str| -> Vec<String> {
            let list = container[field].as_array().cloned().unwrap_or_default();
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let program = words("command").concat();
        let mut argv = command(tests::program::binary(program.trim_start_matches("/usr/bin/"))?);
        argv.args(words("args")).args(bad);
        let error = format!("{:#}", run(argv, "").unwrap_err());
        ensure!(error.contains(complaint) && !error.contains("unexpected"), "{key}: {error}");
    }
    Ok(())
}
