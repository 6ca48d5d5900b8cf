//! Reads ConfigMaps and Secrets whose files this rabbit lacks.

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
use crate::core::Context;

/// Reads the configuration files and keys that the rabbit lacks; reads nothing if no container may start any more. The
/// fields stay `None` if the ConfigMap or Secret is missing.
///
/// # Errors
/// The API did not answer.
pub(crate) async fn read_missing(
    context: &Context,
    desired: &mut Desired,
    record: &Record,
    seen: &Observed,
) -> Result<(), String> {
    if record.end.is_some() || record.is_late || desired.spec.suspend {
        return Ok(());
    }
    let client = &context.client;
    if let Some(source) = desired.spec.files.as_ref().filter(|_| !seen.has_files) {
        let config_map: Option<ConfigMap> = get(client, source).await?;
        desired.files = config_map.and_then(|config_map| config_map.data).map(without_paths);
    }
    if let Some(source) = desired.spec.keys.as_ref().filter(|_| !seen.has_keys) {
        let secret: Option<Secret> = get(client, source).await?;
        let text = |(name, ByteString(bytes))| Some((name, String::from_utf8(bytes).ok()?));
        let data = secret.and_then(|secret| secret.data);
        desired.keys =
            data.map(|data| KeyFiles(without_paths(data.into_iter().filter_map(text).collect())));
    }
    Ok(())
}

/// Drops files whose names would lead out of the directory into which the agent writes them.
fn without_paths(mut files: BTreeMap<String, String>) -> BTreeMap<String, String> {
    files.retain(|name, _| is_file(name));
    files
}

async fn get<K: Object>(
    client: &Client,
    source: &NodeContainersSource,
) -> Result<Option<K>, String> {
    let NodeContainersSource { namespace, name } = source;
    let read = Api::<K>::namespaced(client.clone(), namespace).get_opt(name).await;
    read.map_err(|error| format!("read {} {namespace}/{name}: {}", K::kind(&()), chain(&error)))
}
