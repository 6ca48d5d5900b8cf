//! What containers find in files, and the API has: read where this node lacks it.

use std::collections::BTreeMap;

use api::node_containers::NodeContainersSource;
use controller::Object;
use daemon::chain;
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use kube::{Api, Client};

use super::{
    desired::{Desired, is_file},
    observed::Observed,
    phase::Record,
    step::KeyFiles,
};
use crate::pass::Context;

/// Reads files and keys that the node lacks and containers that may start need. What is not there stays `None`.
///
/// # Errors
/// Why nobody knows whether they are there: the API did not answer.
pub(super) async fn missing(
    context: &Context,
    desired: &mut Desired,
    record: &Record,
    seen: &Observed,
) -> Result<(), String> {
    if record.end.is_some() || record.is_late || desired.spec.suspend {
        return Ok(());
    }
    let client = &context.client;
    if let Some(of) = desired.spec.files.as_ref().filter(|_| !seen.has_files) {
        let config_map: Option<ConfigMap> = get(client, of).await?;
        desired.files = config_map.and_then(|one| one.data).map(plain);
    }
    if let Some(of) = desired.spec.keys.as_ref().filter(|_| !seen.has_keys) {
        let secret: Option<Secret> = get(client, of).await?;
        let text = |(name, ByteString(bytes))| Some((name, String::from_utf8(bytes).ok()?));
        let data = secret.and_then(|secret| secret.data);
        desired.keys =
            data.map(|data| KeyFiles(plain(data.into_iter().filter_map(text).collect())));
    }
    Ok(())
}

/// Files that lie in the directory that they are written to.
fn plain(mut files: BTreeMap<String, String>) -> BTreeMap<String, String> {
    files.retain(|name, _| is_file(name));
    files
}

async fn get<K: Object>(client: &Client, of: &NodeContainersSource) -> Result<Option<K>, String> {
    let NodeContainersSource { namespace, name } = of;
    let read = Api::<K>::namespaced(client.clone(), namespace).get_opt(name).await;
    read.map_err(|error| format!("read {} {namespace}/{name}: {}", K::kind(&()), chain(&error)))
}
