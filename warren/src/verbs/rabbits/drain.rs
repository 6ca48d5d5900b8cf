//! Drains rabbits: no job gets new storage there, and the jobs that have storage there end in peace.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::{NnfNodeBlockStorage, RabbitLabels, Servers};
use apiclient::{Readable, WatchBackoff, list_readable};
use cli::{Exit, Output};
use futures::{Stream, StreamExt, stream::select};
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        watcher::{Config, watcher},
    },
};
use tokio::time::{Instant, sleep, timeout_at};

use super::{change, jobs, storages};
use crate::{
    args::workflow::Hosts,
    failure::{self, Failure},
};

/// Time from a change to the next look: other changes often follow at once.
const SETTLING: Duration = Duration::from_secs(1);

/// Disables the rabbits, and shows who has storage there. With `patience`, waits until no workflow has.
///
/// # Errors
/// When a rabbit has no Storage; then no rabbit is changed. Also when workflows are left after `patience`.
pub(super) async fn run(
    client: &Client,
    rabbits: &[Hosts],
    reason: &str,
    patience: Option<Duration>,
    output: Output,
) -> Result<Exit, Failure> {
    change::run(client, rabbits, Some(reason), output).await?;
    let names: BTreeSet<String> =
        storages(client, rabbits, output).await?.iter().map(ResourceExt::name_any).collect();
    let end = patience.map(|patience| Instant::now() + patience);
    let mut said = BTreeMap::new();
    let mut changes = changes(client);
    loop {
        let (all, unread) = jobs::read(client, output).await?;
        let awaited = awaited(client, &names).await?;
        let left = left(&all, &names);
        for (rabbit, text) in &left {
            if said.get(rabbit) != Some(text) {
                output.note(&format!("{rabbit}: {text}"));
            }
        }
        // A block storage that cannot be read may be on any rabbit.
        let is_idle = unread == 0
            && awaited.is_empty()
            && names.iter().all(|rabbit| all.get(rabbit).map_or(0, jobs::workflows) == 0);
        said = left;
        match end {
            Some(end) if !is_idle && Instant::now() < end => {
                let changed = async {
                    let _ = changes.next().await;
                    sleep(SETTLING).await;
                };
                // The time-out is the end of the drain, which the next look reports.
                let _ = timeout_at(end, changed).await;
            }
            Some(_) if !is_idle => {
                let what = match (unread, awaited.first()) {
                    (0, None) => "jobs still have storage on the rabbits".to_owned(),
                    (0, Some(first)) => {
                        format!("{first} names a rabbit for storage that is not made yet")
                    }
                    (count, _) => format!(
                        "{count} NnfNodeBlockStorages cannot be read, so they may be on the rabbits"
                    ),
                };
                return Err(Failure::new(Exit::Retryable, format!("{what}; they stay disabled"))
                    .remedy("wait for the jobs, or cancel them in the workload manager; correct what cannot be read"));
            }
            _ => return Ok(Exit::Done),
        }
    }
}

/// Returns a stream of the changes of all block storages and Servers; it begins with those that are there. A watch that
/// breaks begins again.
fn changes(client: &Client) -> impl Stream<Item = ()> + Unpin {
    let blocks: Api<PartialObjectMeta<NnfNodeBlockStorage>> = Api::all(client.clone());
    let servers: Api<PartialObjectMeta<Servers>> = Api::all(client.clone());
    let backoff = WatchBackoff::default;
    let blocks = watcher(blocks, Config::default()).backoff(backoff()).map(drop);
    let servers = watcher(servers, Config::default()).backoff(backoff()).map(drop);
    select(blocks.boxed(), servers.boxed()).ready_chunks(1024).map(drop)
}

/// Returns the Servers of workflows that name a rabbit: their storage may be made in a moment.
async fn awaited(client: &Client, names: &BTreeSet<String>) -> Result<Vec<String>, Failure> {
    let failed = |error| failure::api("list Servers", &error);
    let listed: Readable<Servers> =
        list_readable(client.clone(), None, &ListParams::default()).await.map_err(failed)?;
    let is_awaited = |servers: &&Servers| {
        let storage = servers.spec.allocation_sets.iter().flat_map(|set| &set.storage);
        let is_jobs = servers.owner().is_some_and(|owner| owner.kind == "Workflow");
        is_jobs && storage.into_iter().any(|storage| names.contains(&storage.name))
    };
    let awaited = listed.items.iter().filter(is_awaited);
    Ok(awaited
        .map(|servers| format!("Servers {}", servers.name_any()))
        .chain(listed.unreadable)
        .collect())
}

/// Says for each rabbit who has storage there.
fn left(all: &BTreeMap<String, jobs::Users>, names: &BTreeSet<String>) -> BTreeMap<String, String> {
    let describe = |rabbit: &String| {
        let users = all.get(rabbit).into_iter().flat_map(BTreeMap::keys);
        let users =
            users.map(|user| format!("{} {}/{}", jobs::kind(user), user.namespace, user.name));
        let users = users.collect::<Vec<_>>().join(", ");
        let text = if users.is_empty() {
            "no readable object says that anything has storage there".to_owned()
        } else {
            format!("storage of {users}")
        };
        (rabbit.clone(), text)
    };
    names.iter().map(describe).collect()
}
