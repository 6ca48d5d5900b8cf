//! Carries wishes to the API: a few writers side by side, each with one object at a time.

use std::sync::Arc;
use std::time::Duration;

use api::ClientMount;
use apiclient::plain;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::Status;
use kube::{Api, Client, ResourceExt};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::hub::Hub;
use crate::object::{Key, MountObject};
use crate::status::Write;
use crate::watch::resource;

/// Enough that an API server which commits in groups gets groups.
const WRITERS: usize = 64;
/// Lost races on one object that are taken up again at once.
const CONFLICTS_AT_ONCE: u32 = 5;
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LAST_DELAY: Duration = Duration::from_secs(60);

/// Fulfils wishes until dropped.
pub(crate) async fn write_back(client: Client, hub: Arc<Hub>) {
    let writers = Arc::new(Semaphore::new(WRITERS));
    let mut tasks = JoinSet::new();
    loop {
        let key = hub.take_write().await;
        while tasks.try_join_next().is_some() {}
        let Ok(permit) = writers.clone().acquire_owned().await else { return };
        let (client, hub) = (client.clone(), hub.clone());
        tasks.spawn(async move {
            write(client, &hub, &key).await;
            drop(permit);
        });
    }
}

async fn write(client: Client, hub: &Hub, key: &Key) {
    let api: Api<DynamicObject> =
        Api::namespaced_with(client, &key.namespace, &resource::<ClientMount>());
    let mut delay = FIRST_DELAY;
    let mut conflicts = 0;
    while let Some(write) = hub.next_write(key) {
        let Err(error) = send(&api, hub, key, &write).await else {
            (delay, conflicts) = (FIRST_DELAY, 0);
            continue;
        };
        match Verdict::of(&error) {
            Verdict::Vanished => {
                hub.abandon_write(key);
                return;
            }
            Verdict::Refused => {
                log::warn!(client_mount:% = key, error = plain(&error); "write ClientMount, given up until there is news");
                hub.refused_write(key, &write);
                return;
            }
            Verdict::MovedOn => {
                conflicts += 1;
                let read = reread(&api, hub, key).await;
                if let Err(error) = &read {
                    log::warn!(client_mount:% = key, error = plain(error); "read ClientMount again");
                }
                // Somebody who writes all the time is not raced without end.
                if read.is_err() || conflicts > CONFLICTS_AT_ONCE {
                    tokio::time::sleep(jittered(delay)).await;
                    delay = (delay * 2).min(LAST_DELAY);
                }
            }
            Verdict::Retry => {
                log::warn!(client_mount:% = key, error = plain(&error); "write ClientMount, will be retried");
                tokio::time::sleep(jittered(delay)).await;
                delay = (delay * 2).min(LAST_DELAY);
            }
        }
    }
}

async fn send(api: &Api<DynamicObject>, hub: &Hub, key: &Key, write: &Write) -> kube::Result<()> {
    let operations = serde_json::from_value(serde_json::Value::Array(write.operations.clone()))
        .map_err(kube::Error::SerdeError)?;
    let patch = Patch::Json::<()>(operations);
    let parameters = PatchParams::default();
    let stored = if write.is_status() {
        api.patch_status(&key.name, &parameters, &patch).await?
    } else {
        api.patch(&key.name, &parameters, &patch).await?
    };
    hub.written(key, write);
    take_in(hub, key, stored);
    Ok(())
}

async fn reread(api: &Api<DynamicObject>, hub: &Hub, key: &Key) -> kube::Result<()> {
    let known = api.get_opt(&key.name).await?.is_some_and(|object| take_in(hub, key, object));
    if !known {
        // The wish was for an object that is gone; its namesake has not asked for anything yet.
        hub.abandon_write(key);
    }
    Ok(())
}

/// The answer to a write comes before its watch event, or after the event of the object's end.
fn take_in(hub: &Hub, key: &Key, object: DynamicObject) -> bool {
    let ended = object.metadata.deletion_timestamp.is_some() && object.finalizers().is_empty();
    match MountObject::read(object) {
        Ok(object) if ended => {
            hub.remove_mount(key, &object.version.uid);
            false
        }
        Ok(object) => hub.refresh_mount(object),
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

/// Between half the delay and the whole, so that writers which failed together do not return together.
fn jittered(delay: Duration) -> Duration {
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.subsec_nanos());
    delay.mul_f64(0.5 + f64::from(nanos % 1000) / 2000.0)
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

    #[test]
    fn jitter_stays_within_the_delay() {
        let delay = jittered(Duration::from_secs(2));
        assert!(delay >= Duration::from_secs(1) && delay <= Duration::from_secs(2));
    }
}
