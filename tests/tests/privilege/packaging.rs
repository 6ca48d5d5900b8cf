//! Tests of the Helm chart and the kustomizations, which install the same objects.

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

/// Returns the first field in which two objects differ.
fn difference(at: &str, ours: &Value, theirs: &Value) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(left), Value::Object(right)) => left
            .keys()
            .chain(right.keys())
            .find_map(|key| difference(&format!("{at}/{key}"), &ours[key], &theirs[key])),
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => (0..left.len())
            .find_map(|place| difference(&format!("{at}/{place}"), &left[place], &right[place])),
        _ if ours == theirs => None,
        _ => Some(format!("{at}: kustomize has {ours}, helm has {theirs}")),
    }
}

fn kustomize(variant: &str) -> anyhow::Result<Objects> {
    let mut argv = command(control_plane::Assets::find()?.kubectl());
    argv.arg("kustomize").arg(tree("packaging/kubernetes").join(variant));
    objects(&run(argv, "").context("kubectl kustomize")?)
}

/// Runs `helm template`, which renders the chart without a cluster. helm assumes the Kubernetes version that
/// it was built for.
fn helm_template(words: &[&str]) -> anyhow::Result<String> {
    let program =
        std::env::var_os("WARREN_HELM").context("WARREN_HELM names no helm: run `make kube`")?;
    let mut argv = command(program);
    argv.args(["template", "warren"]).arg(tree("packaging/kubernetes/chart")).args(words);
    run(argv, "").with_context(|| format!("helm template {}", words.join(" ")))
}

#[test]
fn the_chart_and_the_kustomizations_make_the_same_objects() -> anyhow::Result<()> {
    for (variant, values) in [
        ("direct", "mode=direct"),
        ("through-coordinator", "mode=coordinator"),
        (
            "with-engine",
            "mode=coordinator,coordinator.workflows=true,coordinator.webhookCaBundle=Q0E=",
        ),
    ] {
        let (ours, mut theirs) =
            (kustomize(variant)?, objects(&helm_template(&["--set", values])?)?);
        replace_ca_bundle_by_annotation(&mut theirs);
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

/// Removes the chart's `caBundle` of webhooks and adds the annotation of the kustomization, by which cert-manager
/// fills the `caBundle` in.
fn replace_ca_bundle_by_annotation(objects: &mut Objects) {
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
fn the_chart_points_the_webhook_at_the_coordinators_port() -> anyhow::Result<()> {
    let words = ["--set", "mode=coordinator,coordinator.webhookCaBundle=Q0E="];
    let chart = objects(&helm_template(&words)?)?;
    let named = |kind: &str, name: &str| {
        let is_named =
            |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        chart
            .values()
            .find(is_named)
            .with_context(|| format!("{kind} {name} in {:?}", chart.keys()))
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
fn the_rabbits_pods_have_the_label_that_sites_tools_look_for() -> anyhow::Result<()> {
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
fn the_chart_leaves_policies_out_for_servers_that_have_no_admission_policies() -> anyhow::Result<()>
{
    for (words, there) in [
        (&["--kube-version", "1.29.9"][..], false),
        (&["--kube-version", "1.30.0"], true),
        (&["--kube-version", "1.29.9", "--set", "policy=always"], true),
        (&["--set", "policy=never"], false),
    ] {
        let chart = objects(&helm_template(words)?)?;
        let policies = chart.keys().filter(|key| key.contains("ValidatingAdmissionPolicy")).count();
        ensure!(policies == if there { 4 } else { 0 }, "{words:?}: {policies} policies");
    }
    Ok(())
}

#[test]
fn the_charts_values_reach_every_object_that_uses_them() -> anyhow::Result<()> {
    let chart = helm_template(&[
        "--set",
        "mode=coordinator,namespace=storage,nodesNamespace=identities,image.repository=site/warren,image.tag=v2",
    ])?;
    ensure!(!chart.contains("nnf-system") && !chart.contains("warren-nodes"), "{chart}");
    ensure!(chart.matches("image: \"site/warren:v2\"").count() == 2, "{chart}");
    let direct = helm_template(&[
        "--set",
        "nodesNamespace=identities,profileNamespaces={default,projects}",
    ])?;
    // The group is bound twice in each of the two namespaces: once for profiles, once for jobs.
    ensure!(direct.matches("system:serviceaccounts:identities").count() == 4, "{direct}");
    let unasked =
        helm_template(&["--set", "mode=coordinator,coordinator.workflows=true"]).unwrap_err();
    ensure!(format!("{unasked:#}").contains("needs coordinator.webhookCaBundle"), "{unasked:#}");
    let wrong = helm_template(&["--set", "mode=sideways"]).unwrap_err();
    ensure!(format!("{wrong:#}").contains("'direct', 'coordinator'"), "{wrong:#}");
    Ok(())
}

/// On a real server, `helm uninstall` removes the chart's objects, but not the namespace, which existed before.
#[test]
fn the_chart_is_installed_upgraded_and_uninstalled() -> anyhow::Result<()> {
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

/// Starts each program with its container's arguments and one mistake: a wrong value, or a flag without a value. The
/// error must name the mistake, and must not say that an argument is unexpected.
#[test]
fn the_arguments_of_containers_are_flags_of_their_programs() -> anyhow::Result<()> {
    let manifests = kustomize("through-coordinator")?;
    for (key, bad, complaint) in [
        ("apps/v1 DaemonSet nnf-system warren-rabbit-agent", &["--node", "a b"][..], "\"a b\""),
        ("apps/v1 Deployment nnf-system warren-coordinator", &["--socket"], "--socket"),
    ] {
        let container = &manifests[key]["spec"]["template"]["spec"]["containers"][0];
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
