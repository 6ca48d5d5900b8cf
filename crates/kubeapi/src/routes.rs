//! Parses request paths.

use crate::verbs::{Subresource, Target};
use percent_encoding::percent_decode_str;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Objects(Target),
    /// `/api`: the versions of the core group.
    CoreVersions,
    /// `/apis`: all other groups with their versions.
    Groups,
    /// `/apis/<group>`: the versions of one group.
    Group(String),
    /// `/api/v1` and `/apis/<group>/<version>`: the resources of one version.
    Resources {
        group: String,
        version: String,
    },
    Version,
    Health,
    /// `/backup`, which no kube-apiserver has: all objects of the store, see [`crate::restore`].
    Backup,
    /// `/openapi/v3`: the index of the OpenAPI documents.
    OpenApiIndex,
    /// `/openapi/v3/api/v1` and `/openapi/v3/apis/<group>/<version>`: the OpenAPI document of one version.
    OpenApiV3 {
        group: String,
        version: String,
    },
}

/// Parses a path; `None` when no route has it.
pub(crate) fn parse(path: &str) -> Option<Route> {
    let decode =
        |part: &str| percent_decode_str(part).decode_utf8().ok().map(std::borrow::Cow::into_owned);
    let parts = path
        .split('/')
        .filter(|part| !part.is_empty())
        .map(decode)
        .collect::<Option<Vec<String>>>()?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["version"] => Some(Route::Version),
        ["backup"] => Some(Route::Backup),
        ["healthz" | "readyz" | "livez", ..] => Some(Route::Health),
        ["openapi", "v3"] => Some(Route::OpenApiIndex),
        ["openapi", "v3", "api", version] => {
            Some(Route::OpenApiV3 { group: String::new(), version: (*version).to_owned() })
        }
        ["openapi", "v3", "apis", group, version] => {
            Some(Route::OpenApiV3 { group: (*group).to_owned(), version: (*version).to_owned() })
        }
        ["openapi", "v3", rest @ ..] => {
            Some(Route::OpenApiV3 { group: rest.join("/"), version: String::new() })
        }
        ["api"] => Some(Route::CoreVersions),
        ["apis"] => Some(Route::Groups),
        ["apis", group] => Some(Route::Group((*group).to_owned())),
        ["api", version] => {
            Some(Route::Resources { group: String::new(), version: (*version).to_owned() })
        }
        ["apis", group, version] => {
            Some(Route::Resources { group: (*group).to_owned(), version: (*version).to_owned() })
        }
        ["api", version, rest @ ..] => objects("", version, rest).map(Route::Objects),
        ["apis", group, version, rest @ ..] => objects(group, version, rest).map(Route::Objects),
        _ => None,
    }
}

fn objects(group: &str, version: &str, parts: &[&str]) -> Option<Target> {
    let (namespace, parts) = match parts {
        // The namespace itself or its status, not an object inside it.
        ["namespaces"] | ["namespaces", _] | ["namespaces", _, "status"] if group.is_empty() => {
            (None, parts)
        }
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => {
            (Some((*namespace).to_owned()), rest)
        }
        _ => (None, parts),
    };
    let subresource = match parts {
        [_, _, "status"] => Some(Subresource::Status),
        [_, _, _, ..] => Some(Subresource::Unknown),
        [_] | [_, _] => None,
        [] => return None,
    };
    Some(Target {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: (*parts.first()?).to_owned(),
        namespace,
        name: parts.get(1).map(|name| (*name).to_owned()),
        subresource,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> Target {
        match parse(path) {
            Some(Route::Objects(target)) => target,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn paths_of_objects_are_parsed() {
        let all = target("/apis/g.io/v1/things");
        assert_eq!(
            (all.group.as_str(), all.plural.as_str(), all.namespace, all.name),
            ("g.io", "things", None, None)
        );
        let status = target("/apis/g.io/v1/namespaces/n/things/a/status");
        assert_eq!((status.namespace.as_deref(), status.name.as_deref()), (Some("n"), Some("a")));
        assert_eq!(status.subresource, Some(Subresource::Status));
        let namespace = target("/api/v1/namespaces/n");
        assert_eq!(
            (namespace.plural.as_str(), namespace.name.as_deref()),
            ("namespaces", Some("n"))
        );
        assert_eq!(target("/api/v1/namespaces/n/status").subresource, Some(Subresource::Status));
        assert_eq!(target("/api/v1/namespaces/n/secrets").namespace.as_deref(), Some("n"));
        let deep = target("/apis/g/v/namespaces/n/things/a/exec/x");
        assert_eq!(deep.subresource, Some(Subresource::Unknown));
        assert_eq!(parse("/api/v1/namespaces/n/things/a/%ff"), None);
    }
}
