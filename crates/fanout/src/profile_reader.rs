//! Reads the profiles that objects name and that the watch does not know.

use std::sync::Arc;

use api::NnfStorageProfile;
use apiclient::plain;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::backoff::{Backoff, REQUEST_TIMEOUT};
use crate::exchange::Exchange;
use crate::fanout::{NoProfile, ProfileRead, missing_profile};
use crate::object::{Key, ProfileObject};
use crate::tasks::next_while_running;
use crate::watch::resource;

/// How many profiles are read at the same time: all computes of a job may name one that the watch does not know.
const READERS: usize = 16;

/// Reads the profiles that objects wait for, until dropped. The watch tells when a missing profile appears.
pub async fn read_profiles(client: Client, exchange: Arc<Exchange>) {
    let turns = Arc::new(Semaphore::new(READERS));
    let mut readers = JoinSet::new();
    loop {
        let key = next_while_running(&mut readers, exchange.take_pending_read()).await;
        let (client, exchange, turns) = (client.clone(), exchange.clone(), turns.clone());
        readers.spawn(async move { answer(&client, &exchange, &turns, &key).await });
    }
}

async fn answer(client: &Client, exchange: &Exchange, turns: &Semaphore, key: &Key) {
    let mut backoff = Backoff::default();
    while let Some((version, profile)) = exchange.profile_to_read(key) {
        let read = {
            let _turn = turns.acquire().await;
            read(client, &profile).await
        };
        match read {
            Read::Answer(answer) => {
                exchange.request_succeeded();
                let found = answer.is_ok();
                exchange.answer(key, &version, answer);
                if found {
                    backoff = Backoff::default();
                    continue;
                }
            }
            Read::Failed(why) => {
                let text = format!("read NnfStorageProfile {profile}: {why}");
                if exchange.is_new_problem(&text) {
                    log::warn!(client_mount:% = key; "{text}; its ClientMount waits, and the coordinator tries again");
                }
            }
        }
        tokio::select! {
            () = sleep(backoff.next()) => {}
            () = exchange.read_requested_again() => backoff = Backoff::default(),
        }
    }
}

enum Read {
    /// The API answered.
    Answer(ProfileRead),
    /// There was no answer, so nobody knows whether the profile exists.
    Failed(String),
}

async fn read(client: &Client, profile: &Key) -> Read {
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &profile.namespace, &resource::<NnfStorageProfile>());
    // The coordinator's role grants list and watch on profiles, but not get.
    let only = ListParams::default().fields(&format!("metadata.name={}", profile.name));
    match timeout(REQUEST_TIMEOUT, api.list(&only))
        .await
        .map(|listed| listed.map(|mut list| list.items.pop()))
    {
        Ok(Ok(Some(object))) => Read::Answer(
            ProfileObject::read(object).map_err(|error| NoProfile::Missing(error.to_string())),
        ),
        Ok(Ok(None)) => Read::Answer(Err(missing_profile(profile))),
        // The object's status says so, because only an administrator can grant the right.
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            Read::Answer(Err(NoProfile::Forbidden(format!(
                "NnfStorageProfile {profile} cannot be read: {}: grant this agent list on nnfstorageprofiles.nnf.cray.hpe.com",
                status.message
            ))))
        }
        Ok(Err(error)) => Read::Failed(plain(&error)),
        Err(_) => Read::Failed(format!("no answer within {} s", REQUEST_TIMEOUT.as_secs())),
    }
}
