//! Carries wishes to the API: a few writers side by side, each with one object at a time.

use std::io;
use std::sync::Arc;

use api::ClientMount;
use apiclient::plain;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::Status;
use kube::{Api, Client, ResourceExt};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::exchange::Exchange;
use crate::object::{Key, MountObject};
use crate::pace::{PATIENCE, Pace};
use crate::status::Write;
use crate::watch::resource;

/// Enough that an API server which commits in groups gets groups.
const WRITERS: usize = 64;
/// Lost races on one object that are taken up again at once.
const CONFLICTS_AT_ONCE: u32 = 5;

/// Fulfils wishes until dropped.
pub async fn write_back(client: Client, exchange: Arc<Exchange>) {
    let writers = Arc::new(Semaphore::new(WRITERS));
    let mut tasks = JoinSet::new();
    loop {
        let key = exchange.take_write().await;
        while tasks.try_join_next().is_some() {}
        let Ok(permit) = writers.clone().acquire_owned().await else { return };
        let (client, exchange) = (client.clone(), exchange.clone());
        tasks.spawn(async move {
            write(client, &exchange, &key).await;
            drop(permit);
        });
    }
}

async fn write(client: Client, exchange: &Exchange, key: &Key) {
    let api: Api<DynamicObject> =
        Api::namespaced_with(client, &key.namespace, &resource::<ClientMount>());
    let mut pace = Pace::new();
    let mut conflicts = 0;
    while let Some(write) = exchange.next_write(key) {
        let Err(error) = send(&api, exchange, key, &write).await else {
            (pace, conflicts) = (Pace::new(), 0);
            continue;
        };
        match Verdict::of(&error) {
            Verdict::Vanished => {
                exchange.abandon_write(key);
                return;
            }
            Verdict::Refused => {
                log::warn!(client_mount:% = key, error = plain(&error); "write ClientMount, given up until there is news");
                exchange.refused_write(key, &write);
                return;
            }
            Verdict::MovedOn => {
                conflicts += 1;
                let read = reread(&api, exchange, key).await;
                if let Err(error) = &read {
                    log::warn!(client_mount:% = key, error = plain(error); "read ClientMount again");
                }
                // Somebody who writes all the time is not raced without end.
                if read.is_err() || conflicts > CONFLICTS_AT_ONCE {
                    sleep(pace.next()).await;
                }
            }
            Verdict::Retry => {
                let why = plain(&error);
                if exchange.complain(&why) {
                    log::warn!(client_mount:% = key; "write ClientMount: {why}; tried again until it works");
                }
                sleep(pace.next()).await;
            }
        }
    }
}

async fn send(
    api: &Api<DynamicObject>,
    exchange: &Exchange,
    key: &Key,
    write: &Write,
) -> kube::Result<()> {
    let operations = serde_json::from_value(serde_json::Value::Array(write.operations.clone()))
        .map_err(kube::Error::SerdeError)?;
    let patch = Patch::Json::<()>(operations);
    let parameters = PatchParams::default();
    let stored = answered(async {
        if write.is_status() {
            api.patch_status(&key.name, &parameters, &patch).await
        } else {
            api.patch(&key.name, &parameters, &patch).await
        }
    })
    .await?;
    exchange.content();
    exchange.written(key, write);
    take_in(exchange, key, stored);
    Ok(())
}

/// An API server that took a request and died without a word is not waited for without end.
async fn answered<T>(request: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    timeout(PATIENCE, request).await.unwrap_or_else(|_| {
        let text = format!("no answer within {} s", PATIENCE.as_secs());
        Err(kube::Error::Service(io::Error::new(io::ErrorKind::TimedOut, text).into()))
    })
}

async fn reread(api: &Api<DynamicObject>, exchange: &Exchange, key: &Key) -> kube::Result<()> {
    let known = answered(api.get_opt(&key.name))
        .await?
        .is_some_and(|object| take_in(exchange, key, object));
    if !known {
        // The wish was for an object that is gone; its namesake has not asked for anything yet.
        exchange.abandon_write(key);
    }
    Ok(())
}

/// The answer to a write comes before its watch event, or after the event of the object's end.
fn take_in(exchange: &Exchange, key: &Key, object: DynamicObject) -> bool {
    let ended = object.metadata.deletion_timestamp.is_some() && object.finalizers().is_empty();
    match MountObject::read(object) {
        Ok(object) if ended => {
            exchange.remove_mount(key, &object.version.uid);
            false
        }
        Ok(object) => exchange.refresh_mount(object),
        Err(error) => {
            log::warn!(error:% = error; "skip the answer to a write");
            false
        }
    }
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
mod tests {
    use super::*;

    #[test]
    fn each_status_code_has_its_verdict() {
        for (code, verdict) in [
            (404, Verdict::Vanished),
            (409, Verdict::MovedOn),
            (422, Verdict::Refused),
            (403, Verdict::Retry),
            (429, Verdict::Retry),
            (500, Verdict::Retry),
        ] {
            let status = Status { code, ..Status::default() };
            assert_eq!(Verdict::of(&kube::Error::Api(Box::new(status))), verdict, "{code}");
        }
    }
}
