//! One package that is fetched: tries, with delays between them.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use containers::{Package, package::Source};
use tokio::sync::watch;

use crate::{
    download::Download,
    error::FetchError,
    file, server,
    store::{Key, Store, StoreError},
    unpack::unpack,
};

/// Tries after the first. With the delays between them they take about a quarter of an hour.
const TRIES: usize = 20;
/// Before the second try.
const FIRST: Duration = Duration::from_secs(1);
/// And at most. Chance lengthens each delay to at most twice itself: a thousand rabbits ask one server.
const LONGEST: Duration = Duration::from_secs(30);

/// Fetches a package until it is in place, or cannot be had. `report` hears of each failure that is followed by another try.
pub(crate) async fn fetch(
    store: &Store,
    package: &Package,
    stop: &watch::Receiver<bool>,
    report: impl Fn(&FetchError),
) -> Result<(), FetchError> {
    let mut delays = delays();
    loop {
        let failed = match once(store, package, stop).await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_final() => return Err(error),
            Err(error) => error,
        };
        let Some(delay) = delays.next() else { return Err(failed) };
        report(&failed);
        tokio::time::sleep(delay).await;
    }
}

fn delays() -> ExponentialBackoff {
    let builder = ExponentialBuilder::new().with_factor(2.0).with_jitter().with_max_times(TRIES);
    builder.with_min_delay(FIRST).with_max_delay(LONGEST).build()
}

async fn once(
    store: &Store,
    package: &Package,
    stop: &watch::Receiver<bool>,
) -> Result<(), FetchError> {
    let directory = store.begin(&Key::of(package))?;
    let (archive, content) = (directory.join("archive"), directory.join("content"));
    let mut download = Download::begin(package, &archive)?;
    match &package.source {
        Source::Server(address) => server::get(address, &mut download).await?,
        Source::File(path) => file::read(path, &mut download).await?,
    }
    download.end()?;
    match package.unpacked {
        Some(limit) => {
            unpack(&archive, &content, limit, stop.clone())?;
            fs::remove_file(&archive).map_err(failed(&archive))?;
        }
        // It may be a program.
        None => {
            let everybody = fs::Permissions::from_mode(0o555);
            fs::set_permissions(&archive, everybody).map_err(failed(&archive))?;
            fs::rename(&archive, &content).map_err(failed(&content))?;
        }
    }
    Ok(store.complete(package)?)
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> FetchError {
    move |source| FetchError::Write { path: path.to_owned(), source }
}

impl From<StoreError> for FetchError {
    fn from(error: StoreError) -> Self {
        let StoreError { path, source } = error;
        Self::Write { path, source }
    }
}
