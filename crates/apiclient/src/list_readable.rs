//! Lists objects so that an object that cannot be decoded does not make the whole list fail.

use std::fmt::Debug;

use kube::{
    Api, Client, Resource,
    api::ListParams,
    core::{DeserializeGuard, NamespaceResourceScope},
};
use serde::de::DeserializeOwned;

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Readable<K> {
    /// Objects that can be decoded.
    pub items: Vec<K>,
    /// For each object that cannot be decoded: its kind, namespace and name, and the reason.
    pub unreadable: Vec<String>,
    /// Token for the next page; `None` on the last page.
    pub continue_token: Option<String>,
}

/// Lists the objects of one Kubernetes namespace, or of all namespaces.
///
/// # Errors
/// When the API refuses the request or does not answer.
pub async fn list_readable<K>(
    client: Client,
    namespace: Option<&str>,
    params: &ListParams,
) -> kube::Result<Readable<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let api: Api<DeserializeGuard<K>> = namespace
        .map_or_else(|| Api::all(client.clone()), |name| Api::namespaced(client.clone(), name));
    let page = api.list(params).await?;
    let continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
    let (mut items, mut unreadable) = (Vec::new(), Vec::new());
    for DeserializeGuard(item) in page.items {
        match item {
            Ok(object) => items.push(object),
            Err(invalid) => {
                let (namespace, name) = (
                    invalid.metadata.namespace.unwrap_or_default(),
                    invalid.metadata.name.unwrap_or_default(),
                );
                let (kind, error) = (K::kind(&()), &invalid.error);
                unreadable.push(format!("{kind} {namespace}/{name} cannot be read: {error}"));
            }
        }
    }
    Ok(Readable { items, unreadable, continue_token })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{ResourceExt, client::Body};
    use tower::service_fn;

    use super::*;

    #[tokio::test]
    async fn a_list_with_an_unreadable_object_still_returns_the_readable_ones() {
        let answer = r#"{"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"continue": ""}, "items": [
            {"metadata": {"name": "good", "namespace": "default"}, "data": {"a": "b"}},
            {"metadata": {"name": "bad", "namespace": "default"}, "data": 3},
            {"metadata": {"name": "better", "namespace": "default"}}]}"#;
        let service = service_fn(move |_: Request<Body>| async move {
            Ok::<_, Infallible>(Response::new(Body::from(answer.as_bytes().to_vec())))
        });
        let client = Client::new(service, "default");
        let listed =
            list_readable::<ConfigMap>(client, None, &ListParams::default()).await.unwrap();
        let names: Vec<String> = listed.items.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["good", "better"]);
        let [why] = listed.unreadable.as_slice() else { panic!("{:?}", listed.unreadable) };
        assert!(why.starts_with("ConfigMap default/bad cannot be read: "), "{why}");
        assert_eq!(listed.continue_token, None);
    }
}
