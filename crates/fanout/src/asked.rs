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
use crate::exchange::{Exchange, Scope};
use crate::fanout::{Lack, ProfileAnswer, missing_profile};
use crate::object::{Key, ProfileObject};
use crate::pace::{PATIENCE, Pace};
use crate::watch::resource;

/// Profiles read at a time: all computes of a job may name one that no watch knows.
const READERS: usize = 16;

/// Answers what is asked, until dropped. A profile that is missing is looked for again until it is there, or until nobody
/// names it any more; over all nodes, the watch tells when it is there.
pub async fn ask_profiles(client: Client, exchange: Arc<Exchange>, scope: Scope) {
    let turns = Arc::new(Semaphore::new(READERS));
    let mut readers = JoinSet::new();
    loop {
        let key = beside(&mut readers, exchange.take_ask()).await;
        let (api, exchange, turns) = ((client.clone(), scope), exchange.clone(), turns.clone());
        readers.spawn(async move { answer(&api, &exchange, &turns, &key).await });
    }
}

async fn answer(api: &(Client, Scope), exchange: &Exchange, turns: &Semaphore, key: &Key) {
    let mut pace = Pace::default();
    while let Some((version, profile)) = exchange.unanswered(key) {
        let read = {
            let _turn = turns.acquire().await;
            read(api, &profile).await
        };
        match read {
            Read::Answer(answer) => {
                exchange.content();
                let found = answer.is_ok();
                exchange.answer(key, &version, answer);
                if found {
                    pace = Pace::default();
                    continue;
                }
            }
            Read::Failed(why) => {
                let text = format!("read NnfStorageProfile {profile}: {why}");
                if exchange.complain(&text) {
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

async fn read((client, scope): &(Client, Scope), profile: &Key) -> Read {
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &profile.namespace, &resource::<NnfStorageProfile>());
    // Each by the right that it has anyway: who watches has list, and no get.
    let (verb, answer) = match scope {
        Scope::Machine => ("list", timeout(PATIENCE, list_one(&api, &profile.name)).await),
        Scope::OneCompute => ("get", timeout(PATIENCE, api.get_opt(&profile.name)).await),
    };
    match answer {
        Ok(Ok(Some(object))) => Read::Answer(
            ProfileObject::read(object).map_err(|error| Lack::Missing(error.to_string())),
        ),
        Ok(Ok(None)) => Read::Answer(Err(missing_profile(profile))),
        // Somebody has to grant it: the owner of the object must see why nothing happens.
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            Read::Answer(Err(Lack::Unread(format!(
                "NnfStorageProfile {profile} cannot be read: {}: grant this agent {verb} on nnfstorageprofiles.nnf.cray.hpe.com",
                status.message
            ))))
        }
        Ok(Err(error)) => Read::Failed(plain(&error)),
        Err(_) => Read::Failed(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

async fn list_one(api: &Api<DynamicObject>, name: &str) -> kube::Result<Option<DynamicObject>> {
    let only = ListParams::default().fields(&format!("metadata.name={name}"));
    Ok(api.list(&only).await?.items.pop())
}
