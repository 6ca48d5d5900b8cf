//! Keeps the directories of requests and answers open and watched.

use std::io;

use daemon::chain;

use crate::{
    FenceConfig,
    notify::Watch,
    spool::{Scan, Spool},
};

#[derive(Debug)]
pub(super) struct OpenSpool {
    pub(super) spool: Spool,
    pub(super) watch: Watch,
}

impl OpenSpool {
    /// Opens the directories; with `to_make`, creates missing ones.
    pub(super) fn open(config: &FenceConfig, to_make: bool) -> Result<(Self, Scan), String> {
        let (requests, responses) = (config.requests.clone(), config.responses.clone());
        let spool = Spool::open(requests, responses, to_make).map_err(|error| chain(&error))?;
        // The watch begins before the scan, so that no change is missed.
        let watch = Watch::new(&[&spool.requests, &spool.responses])
            .map_err(|error| format!("watch {}: {error}", spool.requests.display()))?;
        let scan = spool.scan().map_err(|error| chain(&error))?;
        Ok((Self { spool, watch }, scan))
    }
}

/// Waits for a change in the directories. Never returns while the directories are not open.
pub(super) async fn changed(spool: Option<&OpenSpool>) -> io::Result<()> {
    match spool {
        Some(open) => open.watch.changed().await,
        None => std::future::pending().await,
    }
}
