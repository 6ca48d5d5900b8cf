//! Sends pending writes to the API: one writer per object, and a limited number of requests at a time.

use std::sync::Arc;
use std::time::Duration;

use api::ClientMount;
use apiclient::{Delays, is_refusal, plain};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::exchange::Exchange;
use crate::object::{Key, MountObject};
use crate::pending::Write;
use crate::requests::{REFUSED_DELAY, for_each, with_timeout};
use crate::watch::resource;

/// Number of parallel writes: enough for an API server to commit them in groups.
const WRITERS: usize = 64;
/// Number of conflicts in a row on one object after which the writer no longer retries at once, but after a delay.
const CONFLICTS_AT_ONCE: u32 = 5;

/// Sends pending writes, until this future is dropped.
pub async fn write_back(client: Client, exchange: Arc<Exchange>) {
    let permits = Arc::new(Semaphore::new(WRITERS));
    let next = || exchange.take_write();
    let writer = |key| Writer::new(client.clone(), exchange.clone(), key, permits.clone());
    for_each(next, |key| writer(key).write()).await;
}

/// A writer of one object, which ends once no write is pending.
#[derive(Debug)]
struct Writer {
    api: Api<DynamicObject>,
    exchange: Arc<Exchange>,
    key: Key,
    /// Limits the requests of all writers: each request needs a permit. A writer that waits between
    /// requests holds no permit.
    permits: Arc<Semaphore>,
    delays: Delays,
    /// Number of conflicts since the last accepted write.
    conflicts: u32,
    /// Last reason of a refusal; the log names each reason once.
    refusal: Option<String>,
    /// Delay after a refusal.
    refused_delay: Duration,
}

impl Writer {
    fn new(client: Client, exchange: Arc<Exchange>, key: Key, permits: Arc<Semaphore>) -> Self {
        let api = Api::namespaced_with(client, &key.namespace, &resource::<ClientMount>());
        let (delays, conflicts, refusal, refused_delay) =
            (Delays::default(), 0, None, REFUSED_DELAY);
        Self { api, exchange, key, permits, delays, conflicts, refusal, refused_delay }
    }

    async fn write(mut self) {
        while let Some(write) = self.exchange.next_write(&self.key) {
            match self.send(&write).await {
                Ok(()) => {
                    (self.delays, self.conflicts, self.refusal) = (Delays::default(), 0, None);
                }
                Err(error) => self.handle_failure(&write, &error).await,
            }
        }
    }

    /// Waits after a failed write until the next attempt may succeed.
    async fn handle_failure(&mut self, write: &Write, error: &kube::Error) {
        match Failure::classify(error) {
            // A 404 does not prove that the object is gone: while the CRD is being replaced, the API has no objects of
            // the kind. So the writer tries again, until the watch reports the deletion.
            Failure::NotFound => {
                let longest = self.delays.next_delay();
                self.until_changed(longest).await;
            }
            Failure::Refused => self.refused(write, error).await,
            Failure::Conflict => self.conflict().await,
            Failure::Retry => {
                let (key, why) = (&self.key, plain(error));
                if self.exchange.is_new_problem(&why) {
                    log::warn!(client_mount:% = key; "write ClientMount: {why}; the coordinator tries again until it works");
                }
                sleep(self.delays.next_delay()).await;
            }
        }
    }

    /// Logs a refusal, and waits. A refusal may be temporary: a policy may fail to evaluate for a while, or during an
    /// upgrade a CRD may be older than this program.
    async fn refused(&mut self, write: &Write, error: &kube::Error) {
        let (key, why) = (&self.key, plain(error));
        if self.refusal.as_ref() != Some(&why) {
            log::warn!(client_mount:% = key; "write ClientMount: {why}; the coordinator tries again once a minute, and when the object changes");
            self.refusal = Some(why);
        }
        self.exchange.write_refused(&self.key, write);
        // Jitter spreads the retries of writers that were refused at the same time.
        let refused_delay = Delays::new(self.refused_delay, self.refused_delay).next_delay();
        self.until_changed(refused_delay).await;
    }

    async fn conflict(&mut self) {
        self.conflicts += 1;
        match self.reread().await {
            // After several conflicts in a row the writer waits, because another client keeps changing the object.
            Ok(true) if self.conflicts <= CONFLICTS_AT_ONCE => {}
            Ok(true) => sleep(self.delays.next_delay()).await,
            Ok(false) => {
                let longest = self.delays.next_delay();
                self.until_changed(longest).await;
            }
            Err(error) => {
                let key = &self.key;
                log::warn!(client_mount:% = key, error = plain(&error); "read ClientMount again");
                sleep(self.delays.next_delay()).await;
            }
        }
    }

    /// Waits until the object changes, for at most `longest`.
    async fn until_changed(&self, longest: Duration) {
        // A timeout is no error: the writer tries again in both cases.
        let _ = timeout(longest, self.exchange.changed(&self.key)).await;
    }

    /// Waits for a permit, then awaits the request.
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
        self.exchange.write_accepted(&self.key, write);
        self.refresh(stored);
        Ok(())
    }

    /// Reads the object again. Returns `false` if the API does not have the object, or has another object of its
    /// name; the watch reports both.
    async fn reread(&self) -> kube::Result<bool> {
        let object = self.request(self.api.get_opt(&self.key.name)).await?;
        Ok(object.is_some_and(|object| self.refresh(object)))
    }

    /// Stores the API's answer. The answer may arrive before the watch delivers the write, or after the watch has
    /// delivered the object's deletion.
    fn refresh(&self, object: DynamicObject) -> bool {
        let is_gone =
            object.metadata.deletion_timestamp.is_some() && object.finalizers().is_empty();
        match MountObject::read(object) {
            Ok(object) if is_gone => {
                self.exchange.remove_mount(&self.key, &object.version.uid);
                false
            }
            Ok(object) => self.exchange.refresh_mount(object),
            Err(error) => {
                log::warn!(error:% = error; "ignore the API's answer to a write, which cannot be read");
                false
            }
        }
    }
}

/// The kind of a failed write, which decides the next attempt.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    Conflict,
    NotFound,
    Refused,
    Retry,
}

impl Failure {
    fn classify(error: &kube::Error) -> Self {
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
