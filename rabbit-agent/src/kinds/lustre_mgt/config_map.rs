//! Reads and writes the ConfigMap that keeps the next name after the object was deleted.

use api::NnfLustreMgt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{
    MgtError,
    plan::{Published, is_name_wanted},
};

/// Key in the ConfigMap whose value is the next name.
pub(super) const KEY: &str = "NextFsName";

/// Reads the object's ConfigMap, if the object refers to a ConfigMap and needs a name.
pub(super) async fn read(
    client: &Client,
    object: &NnfLustreMgt,
) -> Result<Option<Published>, MgtError> {
    let Some(reference) = object.spec.fs_name_start_reference.non_default() else {
        return Ok(None);
    };
    if !is_name_wanted(object) {
        return Ok(None);
    }
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    let (kind, namespace, name) =
        (part(&reference.kind), part(&reference.namespace), part(&reference.name));
    if kind != "ConfigMap" || namespace.is_empty() || name.is_empty() {
        return Err(MgtError::Reference { kind, namespace, name });
    }
    let found = Api::<ConfigMap>::namespaced(client.clone(), &namespace).get(&name).await;
    let found = found.map_err(|source| MgtError::ConfigMap {
        call: "read",
        place: format!("{namespace}/{name}"),
        source: Box::new(source),
    })?;
    let next = found.data.unwrap_or_default().remove(KEY);
    Ok(Some(Published { namespace, name, next, version: found.metadata.resource_version }))
}

/// Writes the next name, unless another writer changed the ConfigMap since the read. Fails if the API stores another
/// name: the pass would publish the name without end.
pub(super) async fn publish(
    client: &Client,
    published: &Published,
    next: &str,
) -> Result<(), MgtError> {
    let patch = json!({
        "metadata": {"resourceVersion": published.version}, "data": {KEY: next},
    });
    let maps = Api::<ConfigMap>::namespaced(client.clone(), &published.namespace);
    let written = maps.patch(&published.name, &PatchParams::default(), &Patch::Merge(patch)).await;
    let stored = written.map_err(|source| MgtError::ConfigMap {
        call: "write",
        place: published.place(),
        source: Box::new(source),
    })?;
    let is_kept = stored.data.is_some_and(|data| data.get(KEY).is_some_and(|name| name == next));
    if is_kept { Ok(()) } else { Err(MgtError::NameNotKept(published.place())) }
}

#[cfg(test)]
mod tests {
    use std::io;

    use kube::client::Body;
    use tower::service_fn;

    use super::*;

    #[tokio::test]
    async fn publish_fails_if_the_api_stores_another_name() {
        let answer = |_: http::Request<Body>| async {
            let stored = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {KEY: "aaaaaaab"}});
            Ok::<_, io::Error>(http::Response::new(Body::from(stored.to_string().into_bytes())))
        };
        let client = Client::new(service_fn(answer), "default");
        let (namespace, name) = ("default".to_owned(), "names".to_owned());
        let published = Published { namespace, name, next: None, version: None };
        publish(&client, &published, "aaaaaaab").await.unwrap();
        let error = publish(&client, &published, "aaaaaaac").await.unwrap_err();
        assert!(matches!(error, MgtError::NameNotKept(_)), "{error}");
    }
}
