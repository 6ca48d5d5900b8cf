//! Discovers the kinds that the API serves: users may name every installed CRD by plural, singular, short name or Kind.

use std::collections::HashSet;

use futures::future::try_join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};

use crate::failure::{self, Failure};
use cli::Exit;

/// A kind of objects, with all names by which a user may call it.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub resource: ApiResource,
    pub namespaced: bool,
    names: Vec<String>,
}

/// All kinds that the API serves.
#[derive(Clone, Debug)]
pub(crate) struct Kinds(Vec<Kind>);

impl Kinds {
    /// Reads all kinds from the API.
    ///
    /// # Errors
    /// If the API does not answer.
    pub(crate) async fn discover(client: &Client) -> Result<Self, Failure> {
        let failed =
            |error: kube::Error| failure::api("read from the API which kinds it serves", &error);
        let groups = client.list_api_groups().await.map_err(failed)?;
        let versions: Vec<String> = groups
            .groups
            .iter()
            .flat_map(|group| &group.versions)
            .map(|version| version.group_version.clone())
            .collect();
        let lists =
            try_join_all(versions.iter().map(|version| client.list_api_group_resources(version)))
                .await;
        let core = client.list_core_api_resources("v1").await.map_err(failed)?;
        let lists = std::iter::once(core).chain(lists.map_err(failed)?);
        Ok(Self(lists.flat_map(|list| kinds(&list)).collect()))
    }

    /// Returns the kind that a user names.
    ///
    /// # Errors
    /// If no kind has this name, or several kinds have it.
    pub(crate) fn find_by_name(&self, name: &str) -> Result<&Kind, Failure> {
        let wanted = name.to_lowercase();
        let mut found: Vec<&Kind> = Vec::new();
        for kind in self.0.iter().filter(|kind| kind.names.contains(&wanted)) {
            // The versions of a kind come in the order that the API prefers.
            if !found.iter().any(|known| known.resource.group == kind.resource.group) {
                found.push(kind);
            }
        }
        match found.as_slice() {
            [] => Err(Failure::new(
                Exit::Usage,
                format!("the server doesn't have a resource type {name:?}"),
            )
            .remedy(format!("it serves {}", self.list()))),
            [kind] => Ok(kind),
            several => {
                let full: Vec<String> = several.iter().map(|kind| kind.full_name()).collect();
                Err(Failure::new(Exit::Usage, format!("kind {name:?} is ambiguous"))
                    .remedy(format!("write {}", full.join(" or "))))
            }
        }
    }

    /// Returns the kinds of these groups, each in the version that the API prefers.
    pub(crate) fn in_groups(&self, groups: &[&str]) -> impl Iterator<Item = &Kind> {
        let mut known = HashSet::new();
        self.0.iter().filter(move |kind| {
            let resource = &kind.resource;
            groups.contains(&resource.group.as_str())
                && known.insert((&resource.group, &resource.kind))
        })
    }

    /// Returns the kind of objects with this `apiVersion` and `kind`.
    pub(crate) fn find_by_type(&self, api_version: &str, kind: &str) -> Option<&Kind> {
        self.0
            .iter()
            .find(|known| known.resource.api_version == api_version && known.resource.kind == kind)
    }

    /// Returns the kind of an object from a file; the error has the same words as kubectl's.
    ///
    /// # Errors
    /// If the API does not serve the kind.
    pub(crate) fn require_type(
        &self,
        place: &str,
        api_version: &str,
        kind: &str,
    ) -> Result<&Kind, Failure> {
        self.find_by_type(api_version, kind).ok_or_else(|| {
            let what =
                format!("{place}: no matches for kind \"{kind}\" in version \"{api_version}\"");
            Failure::new(Exit::Usage, what)
                .remedy("correct apiVersion and kind, or apply the CRD first")
        })
    }

    fn list(&self) -> String {
        let mut names: Vec<&str> =
            self.0.iter().map(|kind| kind.resource.plural.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }
}

impl Kind {
    /// Returns the API of this kind in a namespace; for a kind without namespaces, the cluster-wide API.
    pub(crate) fn api(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        if self.namespaced {
            Api::namespaced_with(client.clone(), namespace, &self.resource)
        } else {
            Api::all_with(client.clone(), &self.resource)
        }
    }

    /// Returns the API of this kind in one namespace, or in all.
    pub(crate) fn api_in(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => self.api(client, namespace),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }

    /// Returns `kind/name`, for messages.
    pub(crate) fn label(&self, name: &str) -> String {
        format!("{}/{name}", self.resource.kind.to_lowercase())
    }

    #[cfg(test)]
    pub(crate) fn for_test(kind: &str) -> Self {
        let gvk = kube::api::GroupVersionKind::gvk(api::names::DWS_GROUP, "v1alpha7", kind);
        Self { resource: ApiResource::from_gvk(&gvk), namespaced: true, names: Vec::new() }
    }

    fn full_name(&self) -> String {
        if self.resource.group.is_empty() {
            return self.resource.plural.clone();
        }
        format!("{}.{}", self.resource.plural, self.resource.group)
    }
}

fn kinds(list: &APIResourceList) -> Vec<Kind> {
    let (group, version) = list.group_version.split_once('/').unwrap_or(("", &list.group_version));
    // Subresources have a slash in their name.
    let resources = list.resources.iter().filter(|resource| !resource.name.contains('/'));
    resources
        .map(|resource| {
            let mut kind = Kind {
                resource: ApiResource {
                    group: group.to_owned(),
                    version: version.to_owned(),
                    api_version: list.group_version.clone(),
                    kind: resource.kind.clone(),
                    plural: resource.name.clone(),
                },
                namespaced: resource.namespaced,
                names: Vec::new(),
            };
            let short = resource.short_names.iter().flatten();
            kind.names.extend([
                resource.name.to_lowercase(),
                resource.kind.to_lowercase(),
                kind.full_name(),
            ]);
            kind.names.extend(short.map(|name| name.to_lowercase()));
            if !resource.singular_name.is_empty() {
                kind.names.push(resource.singular_name.to_lowercase());
            }
            kind
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn served() -> Kinds {
        let lists = [
            json!({"groupVersion": "v1", "resources": [
                {"name": "configmaps", "singularName": "configmap", "kind": "ConfigMap", "namespaced": true, "shortNames": ["cm"], "verbs": []},
                {"name": "namespaces", "singularName": "", "kind": "Namespace", "namespaced": false, "verbs": []},
                {"name": "events", "singularName": "event", "kind": "Event", "namespaced": true, "verbs": []}]}),
            json!({"groupVersion": "dataworkflowservices.github.io/v1alpha7", "resources": [
                {"name": "clientmounts", "singularName": "clientmount", "kind": "ClientMount", "namespaced": true, "verbs": []},
                {"name": "clientmounts/status", "singularName": "", "kind": "ClientMount", "namespaced": true, "verbs": []}]}),
            json!({"groupVersion": "dataworkflowservices.github.io/v1alpha6", "resources": [
                {"name": "clientmounts", "singularName": "clientmount", "kind": "ClientMount", "namespaced": true, "verbs": []}]}),
            json!({"groupVersion": "events.k8s.io/v1", "resources": [
                {"name": "events", "singularName": "event", "kind": "Event", "namespaced": true, "verbs": []}]}),
        ];
        Kinds(
            lists
                .into_iter()
                .flat_map(|list| kinds(&serde_json::from_value(list).unwrap()))
                .collect(),
        )
    }

    #[test]
    fn a_kind_is_found_by_each_of_its_names() {
        let kinds = served();
        for name in [
            "clientmounts",
            "clientmount",
            "ClientMount",
            "clientmounts.dataworkflowservices.github.io",
        ] {
            assert_eq!(kinds.find_by_name(name).unwrap().resource.version, "v1alpha7", "{name}");
        }
        assert_eq!(kinds.find_by_name("cm").unwrap().resource.kind, "ConfigMap");
        assert!(!kinds.find_by_name("namespace").unwrap().namespaced);
    }

    #[test]
    fn the_error_about_an_unknown_or_ambiguous_kind_lists_the_possible_kinds() {
        let kinds = served();
        let text = kinds.find_by_name("mount").unwrap_err().text();
        assert!(text.starts_with("the server doesn't have a resource type \"mount\"\n"), "{text}");
        assert!(text.contains("clientmounts, configmaps"), "{text}");
        let text = kinds.find_by_name("events").unwrap_err().text();
        assert!(text.contains("events or events.events.k8s.io"), "{text}");
    }

    #[test]
    fn a_kind_is_found_in_the_version_of_the_object() {
        let kinds = served();
        assert!(
            kinds.find_by_type("dataworkflowservices.github.io/v1alpha6", "ClientMount").is_some()
        );
        assert!(
            kinds.find_by_type("dataworkflowservices.github.io/v1alpha1", "ClientMount").is_none()
        );
        let text = kinds.require_type("a.yaml", "v1", "ClientMont").unwrap_err().text();
        let expected = "a.yaml: no matches for kind \"ClientMont\" in version \"v1\"\n";
        assert!(text.starts_with(expected), "{text}");
    }
}
