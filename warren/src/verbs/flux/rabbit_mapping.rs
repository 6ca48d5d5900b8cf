//! `warren flux rabbitmapping`.

use std::path::Path;

use api::{
    Servers, Storage, SystemConfiguration,
    names::{STORAGE_NAMESPACE, SYSTEM_CONFIGURATION},
};
use apiclient::{Readable, list_readable};
use cli::{Exit, Output};
use flux::{Built, Mapping, json, mapping};
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::{destination, read};
use crate::{
    args::flux::RabbitMapping,
    client::ServerArgs,
    failure::{self, Failure},
};

pub(super) async fn run(
    server: &ServerArgs,
    args: &RabbitMapping,
    output: Output,
) -> Result<Exit, Failure> {
    let client = server.client(output).await?;
    let now = of_cluster(&client, args.ignore_external_allocations, output).await?;
    if let Some(file) = &args.destination.check {
        return destination::report(file, &differences(file, &now)?, &[], output);
    }
    let text = json::text(&now, args.indent.map(usize::from));
    let text = text.map_err(|error| Failure::new(Exit::Failed, "write JSON").because(&error))?;
    destination::write(&args.destination, &text, output)
}

/// Returns the differences of a file from the cluster. A file that is no mapping differs from every mapping.
fn differences(file: &Path, now: &Mapping) -> Result<Vec<String>, Failure> {
    Ok(match Mapping::parse(&read(file)?) {
        Ok(old) => mapping::differences(&old, now),
        Err(error) => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            vec![format!("the file is {error}: {}", source.unwrap_or_default())]
        }
    })
}

/// Returns the mapping of the cluster. Notes each capacity that is not certain.
///
/// # Errors
/// Also when an object cannot be read: the mapping would be wrong without it.
pub(super) async fn of_cluster(
    client: &Client,
    ignore_external: bool,
    output: Output,
) -> Result<Mapping, Failure> {
    let systems: Api<SystemConfiguration> = Api::namespaced(client.clone(), SYSTEM_CONFIGURATION);
    let what = "read SystemConfiguration default/default";
    let system = systems.get(SYSTEM_CONFIGURATION).await;
    let system = system.map_err(|error| {
        failure::api(what, &error).or_remedy("it lists the rabbits and computes: apply it first")
    })?;
    let params = ListParams::default();
    let storages = list_readable(client.clone(), Some(STORAGE_NAMESPACE), &params).await;
    let mut storages: Vec<Storage> = complete("Storages", storages)?;
    storages.sort_by_key(ResourceExt::name_any);
    let servers: Vec<Servers> = if ignore_external {
        Vec::new()
    } else {
        complete("Servers", list_readable(client.clone(), None, &params).await)?
    };
    let objects = mapping::Objects { system: &system, storages: &storages, servers: &servers };
    let built = Built::new(objects)
        .map_err(|error| Failure::new(Exit::Failed, "map the rabbits").because(&error))?;
    built.guesses.iter().for_each(|guess| output.note(guess));
    Ok(built.mapping)
}

/// Returns the objects of a list, if all of them can be read.
fn complete<K>(kind: &str, listed: kube::Result<Readable<K>>) -> Result<Vec<K>, Failure> {
    let listed = listed.map_err(|error| failure::api(format!("list {kind}"), &error))?;
    match listed.unreadable.as_slice() {
        [] => Ok(listed.items),
        unreadable => Err(Failure::new(Exit::Failed, unreadable.join("; "))
            .remedy("correct the objects: without them the mapping would be wrong")),
    }
}
