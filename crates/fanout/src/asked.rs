//! Reads the profiles that objects name and no watch knows, each when it is asked for.

use std::sync::Arc;

use api::NnfStorageProfile;
use apiclient::plain;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::beside::beside;
use crate::exchange::Exchange;
use crate::fanout::{Lack, ProfileAnswer, missing_profile};
use crate::object::{Key, ProfileObject};
use crate::pace::{PATIENCE, Pace};
use crate::watch::resource;

/// Profiles read at a time: all computes of a job may name one that no watch knows.
const READERS: usize = 16;

/// Answers what is asked, until dropped. The watch tells when a profile that was missing is there.
pub async fn ask_profiles(client: Client, exchange: Arc<Exchange>) {
    let turns = Arc::new(Semaphore::new(READERS));
    let mut readers = JoinSet::new();
    loop {
        let key = beside(&mut readers, exchange.take_ask()).await;
        let (client, exchange, turns) = (client.clone(), exchange.clone(), turns.clone());
        readers.spawn(async move { answer(&client, &exchange, &turns, &key).await });
    }
}

async fn answer(client: &Client, exchange: &Exchange, turns: &Semaphore, key: &Key) {
    let mut pace = Pace::default();
    while let Some((version, profile)) = exchange.unanswered(key) {
        let read = {
            let _turn = turns.acquire().await;
            read(client, &profile).await
        };
        match read {
            Read::Answer(answer) => {
                exchange.works_again();
                let found = answer.is_ok();
                exchange.answer(key, &version, answer);
                if found {
                    pace = Pace::default();
                    continue;
                }
            }
            Read::Failed(why) => {
                let text = format!("read NnfStorageProfile {profile}: {why}");
                if exchange.is_news(&text) {
                    log::warn!(client_mount:% = key; "{text}; its ClientMount waits, and it is tried again");
                }
            }
        }
        tokio::select! {
            () = sleep(pace.next()) => {}
            () = exchange.asked_again() => pace = Pace::default(),
        }
    }
}

enum Read {
    /// The API's last word for now.
    Answer(ProfileAnswer),
    /// Nobody's word.
    Failed(String),
}

async fn read(client: &Client, profile: &Key) -> Read {
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &profile.namespace, &resource::<NnfStorageProfile>());
    // A list, not a get: the role grants list and watch only.
    let only = ListParams::default().fields(&format!("metadata.name={}", profile.name));
    match timeout(PATIENCE, api.list(&only)).await.map(|it| it.map(|mut list| list.items.pop())) {
        Ok(Ok(Some(object))) => Read::Answer(
            ProfileObject::read(object).map_err(|error| Lack::Missing(error.to_string())),
        ),
        Ok(Ok(None)) => Read::Answer(Err(missing_profile(profile))),
        // Somebody has to grant it: the owner of the object must see why nothing happens.
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            Read::Answer(Err(Lack::Unread(format!(
                "NnfStorageProfile {profile} cannot be read: {}: grant this agent list on nnfstorageprofiles.nnf.cray.hpe.com",
                status.message
            ))))
        }
        Ok(Err(error)) => Read::Failed(plain(&error)),
        Err(_) => Read::Failed(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}
