//! Reads profiles that ClientMounts name but the watch does not know.

use std::sync::Arc;

use api::{NnfStorageProfile, NoProfile};
use apiclient::{Delays, plain};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::exchange::Exchange;
use crate::fanout::ProfileRead;
use crate::object::{Key, ProfileObject};
use crate::requests::{for_each, with_timeout};
use crate::watch::resource;

/// Number of parallel reads: all computes of a job may name a profile that the watch does not know.
const READERS: usize = 16;

/// Reads the profiles that objects wait for, until this future is dropped. A missing profile is not read again: the
/// watch reports its creation.
pub async fn read_profiles(client: Client, exchange: Arc<Exchange>) {
    let permits = Arc::new(Semaphore::new(READERS));
    let next = || exchange.take_pending_read();
    for_each(next, |key| {
        let (client, exchange, permits) = (client.clone(), exchange.clone(), permits.clone());
        async move { read_for(&client, &exchange, &permits, &key).await }
    })
    .await;
}

async fn read_for(client: &Client, exchange: &Exchange, permits: &Semaphore, key: &Key) {
    let mut delays = Delays::default();
    while let Some((version, profile)) = exchange.profile_to_read(key) {
        let read = {
            let _permit = permits.acquire().await;
            read(client, &profile).await
        };
        match read {
            Ok(read) => {
                exchange.request_succeeded();
                let found = read.is_ok();
                exchange.set_profile_read(key, &version, read);
                if found {
                    delays = Delays::default();
                    continue;
                }
            }
            // Without an answer it is unknown whether the profile exists.
            Err(error) => {
                let text = format!("read NnfStorageProfile {profile}: {}", plain(&error));
                if exchange.is_new_problem(&text) {
                    log::warn!(client_mount:% = key; "{text}; its ClientMount waits, and the coordinator tries again");
                }
            }
        }
        tokio::select! {
            () = sleep(delays.next_delay()) => {}
            () = exchange.read_requested_again() => delays = Delays::default(),
        }
    }
}

async fn read(client: &Client, profile: &Key) -> kube::Result<ProfileRead> {
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &profile.namespace, &resource::<NnfStorageProfile>());
    // The coordinator's role grants list and watch on profiles, but not get.
    let only = ListParams::default().fields(&format!("metadata.name={}", profile.name));
    match with_timeout(api.list(&only)).await.map(|mut list| list.items.pop()) {
        Ok(Some(object)) => Ok(ProfileObject::read(object).map_err(NoProfile::Missing)),
        Ok(None) => Ok(Err(NoProfile::not_found(&profile.namespace, &profile.name))),
        // The refusal goes into the object's status, where the user sees it: only an administrator can grant the right.
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let (namespace, name) = (&profile.namespace, &profile.name);
            Ok(Err(NoProfile::forbidden(namespace, name, "list", &status.message)))
        }
        Err(error) => Err(error),
    }
}
