//! Carries out pending writes: one writer for each object, and a limited number of requests at a time.

use std::sync::Arc;
use std::time::Duration;

use api::ClientMount;
use apiclient::{is_refusal, plain};
use controller::delays;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::exchange::Exchange;
use crate::object::{Key, MountObject};
use crate::pending::Write;
use crate::requests::{Backoff, REFUSED_DELAY, for_each, with_timeout};
use crate::watch::resource;

/// How many writes run in parallel: enough that an API server can commit them in groups.
const WRITERS: usize = 64;
/// Conflicts on one object after which the writer still tries again at once.
const CONFLICTS_AT_ONCE: u32 = 5;

/// Carries out pending writes, until dropped.
pub async fn write_back(client: Client, exchange: Arc<Exchange>) {
    let permits = Arc::new(Semaphore::new(WRITERS));
    let next = || exchange.take_write();
    let writer = |key| Writer::new(client.clone(), exchange.clone(), key, permits.clone());
    for_each(next, |key| writer(key).write()).await;
}

/// Writes to one object until there is nothing to write.
#[derive(Debug)]
struct Writer {
    api: Api<DynamicObject>,
    exchange: Arc<Exchange>,
    key: Key,
    /// Limits the requests of all writers: each request needs a permit; a writer that waits has none.
    permits: Arc<Semaphore>,
    backoff: Backoff,
    /// Conflicts since the API accepted a write.
    conflicts: u32,
    /// The API's last reason to refuse; each reason is logged once.
    refusal: Option<String>,
    /// How long to wait after a refusal.
    refused_delay: Duration,
}

impl Writer {
    fn new(client: Client, exchange: Arc<Exchange>, key: Key, permits: Arc<Semaphore>) -> Self {
        let api = Api::namespaced_with(client, &key.namespace, &resource::<ClientMount>());
        let (backoff, conflicts, refusal, refused_delay) =
            (Backoff::default(), 0, None, REFUSED_DELAY);
        Self { api, exchange, key, permits, backoff, conflicts, refusal, refused_delay }
    }

    async fn write(mut self) {
        while let Some(write) = self.exchange.next_write(&self.key) {
            match self.send(&write).await {
                Ok(()) => {
                    (self.backoff, self.conflicts, self.refusal) = (Backoff::default(), 0, None);
                }
                Err(error) => self.failed(&write, &error).await,
            }
        }
    }

    async fn failed(&mut self, write: &Write, error: &kube::Error) {
        match Failure::of(error) {
            // While somebody replaces its CRD, the API has no objects of the kind; if this one is gone, the watch reports that.
            Failure::NotFound => {
                let longest = self.backoff.next();
                self.until_changed(longest).await;
            }
            Failure::Refused => self.refused(write, error).await,
            Failure::Conflict => self.conflict().await,
            Failure::Retry => {
                let (key, why) = (&self.key, plain(error));
                if self.exchange.is_new_problem(&why) {
                    log::warn!(client_mount:% = key; "write ClientMount: {why}; the coordinator tries again until it works");
                }
                sleep(self.backoff.next()).await;
            }
        }
    }

    /// The writer tries again, though seldom, because a refusal can pass: a policy may not be evaluable for a while, or a CRD may
    /// be older than this program during an upgrade.
    async fn refused(&mut self, write: &Write, error: &kube::Error) {
        let (key, why) = (&self.key, plain(error));
        if self.refusal.as_ref() != Some(&why) {
            log::warn!(client_mount:% = key; "write ClientMount: {why}; the coordinator tries again once a minute, and when the object changes");
            self.refusal = Some(why);
        }
        self.exchange.write_refused(&self.key, write);
        // Chance keeps writers apart that were refused at the same time.
        let refused_delay =
            delays(self.refused_delay, self.refused_delay).next().unwrap_or(self.refused_delay);
        self.until_changed(refused_delay).await;
    }

    async fn conflict(&mut self) {
        self.conflicts += 1;
        match self.reread().await {
            // After several conflicts in a row the writer waits, because somebody else writes all the time.
            Ok(true) if self.conflicts <= CONFLICTS_AT_ONCE => {}
            Ok(true) => sleep(self.backoff.next()).await,
            Ok(false) => {
                let longest = self.backoff.next();
                self.until_changed(longest).await;
            }
            Err(error) => {
                let key = &self.key;
                log::warn!(client_mount:% = key, error = plain(&error); "read ClientMount again");
                sleep(self.backoff.next()).await;
            }
        }
    }

    /// Waits until the object changes, for at most `longest`.
    async fn until_changed(&self, longest: Duration) {
        // In both cases the writer tries again.
        let _ = timeout(longest, self.exchange.changed(&self.key)).await;
    }

    /// Awaits a request, with a permit.
    async fn request<T>(&self, request: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
        let _permit = self.permits.acquire().await;
        with_timeout(request).await
    }

    async fn send(&self, write: &Write) -> kube::Result<()> {
        let operations = serde_json::from_value(serde_json::Value::Array(write.operations.clone()))
            .map_err(kube::Error::SerdeError)?;
        let patch = Patch::Json::<()>(operations);
        let parameters = PatchParams::default();
        let stored = self
            .request(async {
                if write.is_status() {
                    self.api.patch_status(&self.key.name, &parameters, &patch).await
                } else {
                    self.api.patch(&self.key.name, &parameters, &patch).await
                }
            })
            .await?;
        self.exchange.request_succeeded();
        self.exchange.written(&self.key, write);
        self.refresh(stored);
        Ok(())
    }

    /// Reads the object again; `false` when the API does not have it or has another of that name, which the watch will report.
    async fn reread(&self) -> kube::Result<bool> {
        let object = self.request(self.api.get_opt(&self.key.name)).await?;
        Ok(object.is_some_and(|object| self.refresh(object)))
    }

    /// Takes the API's answer, which may come before the watch event of the write or after that of the object's deletion.
    fn refresh(&self, object: DynamicObject) -> bool {
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

/// What to do about a failed write.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    Conflict,
    NotFound,
    Refused,
    Retry,
}

impl Failure {
    fn of(error: &kube::Error) -> Self {
        match error {
            error if is_refusal(error) => Self::Refused,
            kube::Error::Api(status) if status.code == 404 => Self::NotFound,
            kube::Error::Api(status) if status.code == 409 => Self::Conflict,
            _ => Self::Retry,
        }
    }
}

#[cfg(test)]
mod tests;
