use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};

/// Creates a namespace. If the namespace exists, or is being deleted, the API answers 409, and this function succeeds.
pub async fn ensure_namespace(client: &Client, name: &str) -> kube::Result<()> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    match Api::all(client.clone()).create(&PostParams::default(), &namespace).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        created => created.map(drop),
    }
}
