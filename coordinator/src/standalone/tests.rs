//! Sends changes of claims on ContainerRuns to the embedded API, and checks which rules refuse each change. The changes
//! and rules are in a file of test vectors. A claim names the coordinator that works on the run.

use std::{collections::BTreeSet, path::Path};

use api::ContainerRun;
use kube::{
    Api as Objects,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, from_value, json};

use super::*;

fn open(directory: &Path, admission: Admission) -> Api {
    let crds = api::crd::crd_values();
    Api::open(kubeapi::Config { crds, admission, ..kubeapi::Config::new(directory) }).unwrap()
}

fn runs(api: &Api, user: &str) -> Objects<ContainerRun> {
    let user = user.to_owned();
    Objects::default_namespaced(Client::new(api.service(Identity { user }), "default"))
}

/// Stores a ContainerRun with this status, without admission.
async fn store(runs: &Objects<ContainerRun>, name: &str, status: &Value) {
    let run = ContainerRun::new(name, from_value(json!({})).unwrap());
    runs.create(&PostParams::default(), &run).await.unwrap();
    if !status.is_null() {
        let patch = Patch::Merge(json!({"status": status}));
        runs.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }
}

/// Sends a change, and returns the names of the rules that refuse it.
async fn denying_rules(
    runs: &Objects<ContainerRun>,
    name: &str,
    vector: &Value,
) -> BTreeSet<String> {
    let parameters = PatchParams::default();
    let answer = if vector["subresource"] == "main" {
        let labelled = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        runs.patch(name, &parameters, &labelled).await
    } else {
        let whole = json!([{"op": "add", "path": "/status", "value": vector["new"]}]);
        let patch: Patch<()> = Patch::Json(from_value(whole).unwrap());
        runs.patch_status(name, &parameters, &patch).await
    };
    let Err(error) = answer else { return BTreeSet::new() };
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!(status.code, 422, "{}", status.message);
    let (_, rules) = status.message.split_once("denied the request: ").unwrap();
    rules
        .split("; ")
        .filter(|text| text.starts_with(['R', 'V']))
        .map(|text| text[..2].to_owned())
        .collect()
}

#[tokio::test]
async fn the_embedded_api_refuses_each_test_vector_by_the_rules_that_the_vector_names() {
    let vectors = include_str!("../../../crates/containers/golden/claim/vectors.json");
    let vectors: Vec<Value> = serde_json::from_str(vectors).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let name = |place: usize| format!("vector-{place}");
    let without_admission = open(directory.path(), Admission::default());
    for (place, vector) in vectors.iter().enumerate() {
        store(&runs(&without_admission, "site"), &name(place), &vector["old"]).await;
    }
    without_admission.close();
    drop(without_admission);
    let admission = Admission::new(|change| admit_or_deny(change, &None));
    let with_admission = open(directory.path(), admission);
    for (place, vector) in vectors.iter().enumerate() {
        let caller = vector["callerPodUid"].as_str().unwrap_or("nobody");
        let runs = runs(&with_admission, caller);
        let rules = denying_rules(&runs, &name(place), vector).await;
        assert_eq!(json!(rules), vector["denyBy"], "{}", vector["name"]);
    }
}
