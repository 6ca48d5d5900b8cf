//! The vectors of claims, asked of the embedded API as the coordinator opens it.

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

/// Makes a run with this status, which nobody judges.
async fn store(runs: &Objects<ContainerRun>, name: &str, status: &Value) {
    let run = ContainerRun::new(name, from_value(json!({})).unwrap());
    runs.create(&PostParams::default(), &run).await.unwrap();
    if !status.is_null() {
        let patch = Patch::Merge(json!({"status": status}));
        runs.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }
}

/// The names of the rules that refuse a change.
async fn refused(runs: &Objects<ContainerRun>, name: &str, vector: &Value) -> BTreeSet<String> {
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
async fn the_embedded_api_refuses_each_vector_of_claims_by_the_rules_that_it_names() {
    let vectors = include_str!("../../../crates/containers/golden/claim/vectors.json");
    let vectors: Vec<Value> = serde_json::from_str(vectors).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let name = |place: usize| format!("vector-{place}");
    let unjudged = open(directory.path(), Admission::default());
    for (place, vector) in vectors.iter().enumerate() {
        store(&runs(&unjudged, "site"), &name(place), &vector["old"]).await;
    }
    unjudged.close();
    drop(unjudged);
    let judged = open(directory.path(), Admission::new(|change| admitted(change, &None)));
    for (place, vector) in vectors.iter().enumerate() {
        let runs = runs(&judged, vector["callerPodUid"].as_str().unwrap_or("nobody"));
        let told = refused(&runs, &name(place), vector).await;
        assert_eq!(json!(told), vector["denyBy"], "{}", vector["name"]);
    }
}
