//! Drains rabbits: no job gets new storage there, and the jobs that have storage there end in peace.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use cli::{Exit, Output};
use kube::{Client, ResourceExt};
use tokio::time::{Instant, sleep};

use super::{change, jobs, storages};
use crate::{args::workflow::Hosts, failure::Failure};

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
        let all = jobs::by_rabbit(client, output).await?;
        let left = left(&all, &names);
        for (rabbit, text) in &left {
            if said.get(rabbit) != Some(text) {
                output.note(&format!("{rabbit}: {text}"));
            }
        }
        let is_idle = names.iter().all(|rabbit| all.get(rabbit).map_or(0, jobs::workflows) == 0);
        said = left;
        match end {
            Some(end) if !is_idle && Instant::now() < end => sleep(INTERVAL).await,
            Some(_) if !is_idle => {
                let what = "jobs still have storage on the rabbits, which stay disabled";
                return Err(Failure::new(Exit::Retryable, what)
                    .remedy("wait for the jobs, or cancel them in the workload manager"));
            }
            _ => return Ok(Exit::Done),
        }
    }
}

/// Says for each rabbit who has storage there.
fn left(all: &BTreeMap<String, jobs::Users>, names: &BTreeSet<String>) -> BTreeMap<String, String> {
    let describe = |rabbit: &String| {
        let users = all.get(rabbit).into_iter().flat_map(BTreeMap::keys);
        let users =
            users.map(|user| format!("{} {}/{}", jobs::kind(user), user.namespace, user.name));
        let users = users.collect::<Vec<_>>().join(", ");
        let text = if users.is_empty() {
            "nothing has storage there".to_owned()
        } else {
            format!("storage of {users}")
        };
        (rabbit.clone(), text)
    };
    names.iter().map(describe).collect()
}
