//! The documents that tell clients which kinds are served (legacy discovery: `APIGroupList`, `APIResourceList`).

use super::{Definition, Registry, Version, crd};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Verbs of built-in kinds, in the order in which kube-apiserver lists them.
const OBJECT_VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Verbs of custom kinds, in the order in which apiextensions-apiserver lists them.
const CUSTOM_VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// Returns the document of `/api`.
pub(crate) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// Returns the document of `/apis`.
pub(crate) fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> =
        by_group(registry).into_iter().map(|(name, versions)| entry(&name, &versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns the document of `/apis/<group>`; `None` for a group that is not served.
pub(crate) fn group(registry: &Registry, group: &str) -> Option<Value> {
    let versions = by_group(registry).remove(group)?;
    let mut document = entry(group, &versions);
    document["kind"] = json!("APIGroup");
    document["apiVersion"] = json!("v1");
    Some(document)
}

/// Returns every group and version that is served; the core group has the empty name.
pub(crate) fn group_versions(registry: &Registry) -> Vec<(String, String)> {
    let mut all = vec![(String::new(), "v1".to_owned())];
    for (group, versions) in by_group(registry) {
        all.extend(versions.into_iter().map(|version| (group.clone(), version)));
    }
    all
}

/// Returns the document of `/api/v1` or `/apis/<group>/<version>`; `None` for a version that is not served.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let served = registry.iter().flat_map(|definition| {
        let here = |candidate: &&Version| candidate.group == group && candidate.name == version;
        definition.versions.iter().find(here).map(|version| (definition, version))
    });
    let resources: Vec<Value> =
        served.flat_map(|(definition, version)| entries(definition, version)).collect();
    if resources.is_empty() {
        return None;
    }
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}),
    )
}

fn by_group(registry: &Registry) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let versions = registry
        .iter()
        .flat_map(|definition| &definition.versions)
        .filter(|version| !version.group.is_empty());
    for version in versions {
        let names = groups.entry(version.group.clone()).or_default();
        if !names.contains(&version.name) {
            names.push(version.name.clone());
        }
    }
    for versions in groups.values_mut() {
        versions.sort_by_key(|version| Reverse(crd::priority(version)));
    }
    groups
}

fn entry(group: &str, versions: &[String]) -> Value {
    let version =
        |name: &String| json!({"groupVersion": format!("{group}/{name}"), "version": name});
    let all: Vec<Value> = versions.iter().map(version).collect();
    json!({"name": group, "versions": all, "preferredVersion": all.first()})
}

fn entries(definition: &Definition, version: &Version) -> Vec<Value> {
    let verbs = if definition.custom { CUSTOM_VERBS } else { OBJECT_VERBS };
    let mut main = json!({
        "name": definition.plural, "singularName": definition.singular, "namespaced": definition.namespaced,
        "kind": definition.kind, "verbs": verbs,
    });
    if !definition.short_names.is_empty() {
        main["shortNames"] = json!(definition.short_names);
    }
    if !definition.categories.is_empty() {
        main["categories"] = json!(definition.categories);
    }
    let subresource = |name: &str, verbs: &[&str]| {
        json!({
            "name": format!("{}/{name}", definition.plural), "singularName": "", "namespaced": definition.namespaced,
            "kind": definition.kind, "verbs": verbs,
        })
    };
    let mut all = vec![main];
    if version.has_status {
        all.push(subresource("status", &["get", "patch", "update"]));
    }
    all
}
