//! Carries pending to the API: a few writers side by side, each with one object at a time.

mod turn;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use api::ClientMount;
use apiclient::plain;
use controller::delays;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::Status;
use kube::{Api, Client, ResourceExt};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::beside::beside;
use crate::exchange::Exchange;
use crate::object::{Key, MountObject};
use crate::pace::{PATIENCE, Pace, REST};
use crate::pending::Write;
use crate::watch::resource;
use turn::Turn;

/// Enough that an API server which commits in groups gets groups.
const WRITERS: usize = 64;
/// Lost races on one object that are taken up again at once.
const CONFLICTS_AT_ONCE: u32 = 5;

/// Fulfils pending until dropped.
pub async fn write_back(client: Client, exchange: Arc<Exchange>) {
    let turns = Arc::new(Semaphore::new(WRITERS));
    let mut tasks = JoinSet::new();
    loop {
        let key = beside(&mut tasks, exchange.take_write()).await;
        let turn = Turn::take(&turns).await;
        tasks.spawn(Writer::new(client.clone(), exchange.clone(), key, turn).write());
    }
}

/// Writes to one object until there is nothing to write.
#[derive(Debug)]
struct Writer {
    api: Api<DynamicObject>,
    exchange: Arc<Exchange>,
    key: Key,
    turn: Turn,
    pace: Pace,
    /// Lost races since a write was accepted.
    conflicts: u32,
    /// What was said last of what the API refuses; it refuses in the same words each time.
    refusal: Option<String>,
    /// How long what was refused waits, at most.
    rest: Duration,
}

impl Writer {
    fn new(client: Client, exchange: Arc<Exchange>, key: Key, turn: Turn) -> Self {
        let api = Api::namespaced_with(client, &key.namespace, &resource::<ClientMount>());
        let (pace, conflicts, refusal, rest) = (Pace::default(), 0, None, REST);
        Self { api, exchange, key, turn, pace, conflicts, refusal, rest }
    }

    async fn write(mut self) {
        while let Some(write) = self.exchange.next_write(&self.key) {
            match self.send(&write).await {
                Ok(()) => (self.pace, self.conflicts, self.refusal) = (Pace::default(), 0, None),
                Err(error) => self.failed(&write, &error).await,
            }
        }
    }

    async fn failed(&mut self, write: &Write, error: &kube::Error) {
        match Verdict::of(error) {
            // While its kind is registered anew, the API knows no object that is there; if this one is gone, its watch says so.
            Verdict::Vanished => {
                let longest = self.pace.next();
                self.until_news(longest).await;
            }
            Verdict::Refused => self.refused(write, error).await,
            Verdict::MovedOn => self.moved_on().await,
            Verdict::Retry => {
                let (key, why) = (&self.key, plain(error));
                if self.exchange.is_news(&why) {
                    log::warn!(client_mount:% = key; "write ClientMount: {why}; tried again until it works");
                }
                self.turn.after(sleep(self.pace.next())).await;
            }
        }
    }

    /// What refuses may be a policy that cannot be evaluated, or a CRD that is older than we are for as long as an upgrade
    /// takes: it is asked again, though seldom.
    async fn refused(&mut self, write: &Write, error: &kube::Error) {
        let (key, why) = (&self.key, plain(error));
        if self.refusal.as_ref() != Some(&why) {
            log::warn!(client_mount:% = key; "write ClientMount: {why}; tried again once a minute, and when there is news of it");
            self.refusal = Some(why);
        }
        self.exchange.refused_write(&self.key, write);
        // So that writers which were refused together do not return together.
        let rest = delays(self.rest, self.rest).next().unwrap_or(self.rest);
        self.until_news(rest).await;
    }

    async fn moved_on(&mut self) {
        self.conflicts += 1;
        match self.reread().await {
            // Somebody who writes all the time is not raced without end.
            Ok(true) if self.conflicts <= CONFLICTS_AT_ONCE => {}
            Ok(true) => self.turn.after(sleep(self.pace.next())).await,
            Ok(false) => {
                let longest = self.pace.next();
                self.until_news(longest).await;
            }
            Err(error) => {
                let key = &self.key;
                log::warn!(client_mount:% = key, error = plain(&error); "read ClientMount again");
                self.turn.after(sleep(self.pace.next())).await;
            }
        }
    }

    async fn until_news(&mut self, longest: Duration) {
        let news = self.exchange.news(&self.key);
        self.turn.after(timeout(longest, news)).await;
    }

    async fn send(&self, write: &Write) -> kube::Result<()> {
        let operations = serde_json::from_value(serde_json::Value::Array(write.operations.clone()))
            .map_err(kube::Error::SerdeError)?;
        let patch = Patch::Json::<()>(operations);
        let parameters = PatchParams::default();
        let stored = answered(async {
            if write.is_status() {
                self.api.patch_status(&self.key.name, &parameters, &patch).await
            } else {
                self.api.patch(&self.key.name, &parameters, &patch).await
            }
        })
        .await?;
        self.exchange.works_again();
        self.exchange.written(&self.key, write);
        self.take_in(stored);
        Ok(())
    }

    /// Reads the object again; false when the API does not know it, or another of its name: then a watch has news of it soon.
    async fn reread(&self) -> kube::Result<bool> {
        let object = answered(self.api.get_opt(&self.key.name)).await?;
        Ok(object.is_some_and(|object| self.take_in(object)))
    }

    /// The answer to a write comes before its watch event, or after the event of the object's end.
    fn take_in(&self, object: DynamicObject) -> bool {
        let ended = object.metadata.deletion_timestamp.is_some() && object.finalizers().is_empty();
        match MountObject::read(object) {
            Ok(object) if ended => {
                self.exchange.remove_mount(&self.key, &object.version.uid);
                false
            }
            Ok(object) => self.exchange.refresh_mount(object),
            Err(error) => {
                log::warn!(error:% = error; "skip the answer to a write");
                false
            }
        }
    }
}

/// An API server that took a request and died without a word is not waited for without end.
async fn answered<T>(request: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    timeout(PATIENCE, request).await.unwrap_or_else(|_| {
        let text = format!("no answer within {} s", PATIENCE.as_secs());
        Err(kube::Error::Service(io::Error::new(io::ErrorKind::TimedOut, text).into()))
    })
}

/// What a failed write means.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    MovedOn,
    Vanished,
    Refused,
    Retry,
}

impl Verdict {
    fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            _ => Self::Retry,
        }
    }

    fn of_status(status: &Status) -> Self {
        match status.code {
            404 => Self::Vanished,
            409 => Self::MovedOn,
            400 | 413 | 415 | 422 => Self::Refused,
            _ => Self::Retry,
        }
    }
}

#[cfg(test)]
mod tests;
