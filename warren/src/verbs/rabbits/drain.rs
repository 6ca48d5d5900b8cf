//! Drains rabbits: no job gets new storage there, and the jobs that have storage there end in peace.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::{RabbitLabels, Servers};
use apiclient::{Readable, list_readable};
use cli::{Exit, Output};
use kube::{Client, ResourceExt, api::ListParams};
use tokio::time::{Instant, sleep};

use super::{change, jobs, storages};
use crate::{
    args::workflow::Hosts,
    failure::{self, Failure},
};

/// Time between two looks at the jobs: a drain lasts as long as its jobs, which run for hours.
const INTERVAL: Duration = Duration::from_secs(5);

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
            Some(end) if !is_idle && Instant::now() < end => sleep(INTERVAL).await,
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
