//! The paths of the Kubernetes API that the socket for users answers. Pure.

use api::{
    ClientMount, Computes, DirectiveBreakdown, NnfDataMovement, NnfNodeBlockStorage,
    NnfNodeStorage, NodeContainers, PersistentStorageInstance, Servers, Workflow,
};
use http::Uri;
use kube::api::ApiResource;
use serde_json::{Value, json};

/// What a request asks for.
#[derive(Debug, PartialEq)]
pub(super) enum Target {
    /// Groups or kinds; the answer.
    Discovery(Value),
    Objects {
        kind: ApiResource,
        namespace: Option<String>,
        name: Option<String>,
        /// Label selector; empty for all.
        labels: String,
    },
}

/// Returns the kinds that the service `Workloads` returns.
pub(super) fn kinds() -> [ApiResource; 10] {
    [
        ApiResource::erase::<Workflow>(&()),
        ApiResource::erase::<PersistentStorageInstance>(&()),
        ApiResource::erase::<Computes>(&()),
        ApiResource::erase::<DirectiveBreakdown>(&()),
        ApiResource::erase::<Servers>(&()),
        ApiResource::erase::<ClientMount>(&()),
        ApiResource::erase::<NnfNodeBlockStorage>(&()),
        ApiResource::erase::<NnfNodeStorage>(&()),
        ApiResource::erase::<NnfDataMovement>(&()),
        ApiResource::erase::<NodeContainers>(&()),
    ]
}

/// Returns what a path asks for; `None` for another path.
pub(super) fn target(uri: &Uri) -> Option<Target> {
    let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    let objects = |group: &str, plural: &str, namespace: Option<&str>, name: Option<&str>| {
        let is_kind = |kind: &ApiResource| kind.group == group && kind.plural == plural;
        let kind = kinds().into_iter().find(is_kind)?;
        let (namespace, name) = (namespace.map(str::to_owned), name.map(str::to_owned));
        Some(Target::Objects { kind, namespace, name, labels: labels(uri) })
    };
    match parts.as_slice() {
        ["apis"] => Some(Target::Discovery(groups())),
        ["api", "v1"] => Some(Target::Discovery(resources("", "v1"))),
        ["apis", group, version] => Some(Target::Discovery(resources(group, version))),
        ["apis", group, _, plural] => objects(group, plural, None, None),
        ["apis", group, _, "namespaces", namespace, plural] => {
            objects(group, plural, Some(namespace), None)
        }
        ["apis", group, _, "namespaces", namespace, plural, name] => {
            objects(group, plural, Some(namespace), Some(name))
        }
        _ => None,
    }
}

/// Returns the label selector of a query.
fn labels(uri: &Uri) -> String {
    let query = uri.query().unwrap_or_default().split('&');
    let encoded = query.filter_map(|pair| pair.strip_prefix("labelSelector=")).next();
    decoded(encoded.unwrap_or_default())
}

/// Decodes `%XX` and `+` (application/x-www-form-urlencoded).
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).filter(|_| *first == b'%');
        let code = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(code.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the answer to `/apis`.
fn groups() -> Value {
    let mut known: Vec<(String, String)> =
        kinds().into_iter().map(|kind| (kind.group, kind.version)).collect();
    known.sort();
    known.dedup();
    let group = |(group, version): &(String, String)| {
        let version = json!({"groupVersion": format!("{group}/{version}"), "version": version});
        json!({"name": group, "versions": [version], "preferredVersion": version})
    };
    let groups: Vec<Value> = known.iter().map(group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns the answer to `/apis/GROUP/VERSION`.
fn resources(group: &str, version: &str) -> Value {
    let kinds = kinds().into_iter().filter(|kind| kind.group == group && kind.version == version);
    let resource = |kind: ApiResource| {
        json!({"name": kind.plural, "singularName": kind.kind.to_lowercase(), "namespaced": true,
            "kind": kind.kind, "verbs": ["get", "list"]})
    };
    let version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let resources: Vec<Value> = kinds.map(resource).collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources})
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: &str = "/apis/dataworkflowservices.github.io/v1alpha7";

    #[test]
    fn paths_name_a_kind_a_namespace_a_name_and_labels() {
        let read = |path: &str| match target(&format!("{GROUP}{path}").parse().unwrap()) {
            Some(Target::Objects { kind, namespace, name, labels }) => {
                let text = |text: Option<String>| text.unwrap_or_default();
                format!("{} {}/{} {labels}", kind.kind, text(namespace), text(name))
            }
            Some(Target::Discovery(_)) => "discovery".to_owned(),
            None => "none".to_owned(),
        };
        for (path, expected) in [
            ("/workflows", "Workflow / "),
            ("/namespaces/default/workflows?limit=500", "Workflow default/ "),
            ("/namespaces/default/servers/w-0", "Servers default/w-0 "),
            ("/servers?&labelSelector=a%2Fb%3Dc%2Cd%3De&limit=5", "Servers / a/b=c,d=e"),
            ("", "discovery"),
            ("/storages", "none"),
            ("/namespaces/default/workflows/w/status", "none"),
        ] {
            assert_eq!(read(path), expected, "{path}");
        }
    }

    #[test]
    fn every_kind_is_discovered() {
        let groups = groups();
        let groups = groups["groups"].as_array().unwrap();
        let found = groups.iter().map(|group| {
            let version = group["preferredVersion"]["version"].as_str().unwrap();
            resources(group["name"].as_str().unwrap(), version)["resources"]
                .as_array()
                .unwrap()
                .len()
        });
        assert_eq!(found.sum::<usize>(), kinds().len());
    }
}
