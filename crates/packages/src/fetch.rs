//! Fetches one job package: makes attempts, with delays between them.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use apiclient::Delays;
use containers::{JobPackage, package::Source};
use tokio::sync::watch;

use crate::{
    download::Download,
    error::FetchError,
    file, server,
    store::{Key, Store, StoreError},
    unpack::unpack,
};

/// Maximum number of attempts after the first. All attempts with their delays take about a quarter of an hour.
const MAX_RETRIES: u32 = 20;
/// Delay before the second attempt.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Longest delay; jitter adds up to 100 %, because a thousand rabbits may fetch from one server.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// Repeats attempts to fetch a job package until the job package is in place or an error is final. Calls `report` after
/// each failed attempt, unless the attempt was the last one.
pub(crate) async fn fetch(
    store: &Store,
    package: &JobPackage,
    stop: &watch::Receiver<bool>,
    report: impl Fn(&FetchError),
) -> Result<(), FetchError> {
    let mut delays = Delays::new(FIRST_DELAY, LONGEST_DELAY);
    for _ in 0..MAX_RETRIES {
        match attempt(store, package, stop).await {
            Err(error) if !error.is_final() => report(&error),
            ended => return ended,
        }
        tokio::time::sleep(delays.next_delay()).await;
    }
    attempt(store, package, stop).await
}

async fn attempt(
    store: &Store,
    package: &JobPackage,
    stop: &watch::Receiver<bool>,
) -> Result<(), FetchError> {
    let directory = store.begin(&Key::new(package))?;
    let (archive, content) = (directory.join("archive"), directory.join("content"));
    let mut download = Download::begin(package, &archive)?;
    match &package.source {
        Source::Server(address) => server::get(address, &mut download).await?,
        Source::File(path) => file::read(path, &mut download).await?,
    }
    download.finish()?;
    match package.unpacked {
        Some(limit) => {
            unpack(&archive, &content, limit, stop.clone())?;
            fs::remove_file(&archive).map_err(write_error(&archive))?;
        }
        // The file gets the permission to be executed, because it may be a program that containers run.
        None => {
            let everybody = fs::Permissions::from_mode(0o555);
            fs::set_permissions(&archive, everybody).map_err(write_error(&archive))?;
            fs::rename(&archive, &content).map_err(write_error(&content))?;
        }
    }
    Ok(store.complete(package)?)
}

fn write_error(path: &Path) -> impl FnOnce(std::io::Error) -> FetchError {
    move |source| FetchError::Write { path: path.to_owned(), source }
}

impl From<StoreError> for FetchError {
    fn from(error: StoreError) -> Self {
        let StoreError { path, source } = error;
        Self::Write { path, source }
    }
}
