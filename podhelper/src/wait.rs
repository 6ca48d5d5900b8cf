//! Waits until every worker answers. The launcher's pod does so each time before mpirun, also when it is tried again.

use std::{collections::BTreeMap, fs, io, path::PathBuf, time::Duration};

use futures::{StreamExt, stream};
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    args::Wait,
    keys::{Connector, Keys, KeysError},
    rsh::connected,
};

/// Between two questions to one worker.
const PAUSE: Duration = Duration::from_millis(500);
/// Workers that are asked at the same time.
const SIDE_BY_SIDE: usize = 256;

#[derive(Debug, Error)]
pub(crate) enum WaitError {
    #[error("prepare the keys")]
    Keys(#[from] KeysError),
    #[error("read {}, which names the workers", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} names no worker", .0.display())]
    NoWorkers(PathBuf),
    #[error("after {seconds} seconds {} of {of} workers do not answer: {}", missing.len(), told(missing))]
    Missing {
        seconds: u64,
        of: usize,
        /// What was last heard of each.
        missing: BTreeMap<String, String>,
    },
}

/// Waits for all of them.
pub(crate) async fn run(wait: &Wait) -> Result<(), WaitError> {
    let connector = Keys::read(&wait.keys.directory)?.connector()?;
    let workers = workers(wait)?;
    let end = Instant::now() + Duration::from_secs(wait.seconds);
    let each =
        workers.iter().map(|host| async { (host.clone(), answered(&connector, host, end).await) });
    let answers: Vec<_> = stream::iter(each).buffer_unordered(SIDE_BY_SIDE).collect().await;
    let missing = answers.into_iter().filter_map(|(host, answer)| Some((host, answer.err()?)));
    let missing: BTreeMap<String, String> = missing.collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(WaitError::Missing { seconds: wait.seconds, of: workers.len(), missing })
}

fn workers(wait: &Wait) -> Result<Vec<String>, WaitError> {
    let Some(path) = &wait.workers else { return Ok(wait.worker.iter().cloned().collect()) };
    let text = fs::read_to_string(path)
        .map_err(|source| WaitError::Read { path: path.clone(), source })?;
    let workers: Vec<String> = text.lines().map(str::to_owned).collect();
    if workers.is_empty() { Err(WaitError::NoWorkers(path.clone())) } else { Ok(workers) }
}

/// Asks one worker until it answers; in the end what was last heard of it.
async fn answered(connector: &Connector, host: &str, end: Instant) -> Result<(), String> {
    let mut last = "no answer".to_owned();
    loop {
        match timeout_at(end, connected(connector, host)).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => return Err(last),
        }
        if timeout_at(end, sleep(PAUSE)).await.is_err() {
            return Err(last);
        }
    }
}

/// The first of them with what is wrong, and all others by name.
fn told(missing: &BTreeMap<String, String>) -> String {
    let mut each = missing.iter();
    let first = each.next().map(|(host, why)| format!("{host} ({why})"));
    first.into_iter().chain(each.map(|(host, _)| host.clone())).collect::<Vec<_>>().join(", ")
}
