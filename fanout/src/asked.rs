//! Reads the profiles that objects name, each when it is asked for.

use std::sync::Arc;

use api::NnfStorageProfile;
use apiclient::plain;
use kube::api::DynamicObject;
use kube::{Api, Client};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::exchange::Exchange;
use crate::fanout::{ProfileAnswer, missing_profile};
use crate::object::{Key, ProfileObject};
use crate::pace::{PATIENCE, Pace};
use crate::watch::resource;

/// Answers what is asked, until dropped. A profile that is missing is looked for again until it is there, or until nobody
/// names it any more.
pub async fn ask_profiles(client: Client, exchange: Arc<Exchange>) {
    let mut readers = JoinSet::new();
    loop {
        let key = exchange.take_ask().await;
        while readers.try_join_next().is_some() {}
        let (client, exchange) = (client.clone(), exchange.clone());
        readers.spawn(async move { answer(client, &exchange, &key).await });
    }
}

async fn answer(client: Client, exchange: &Exchange, key: &Key) {
    let mut pace = Pace::new();
    while let Some((version, profile)) = exchange.unanswered(key) {
        match read(&client, &profile).await {
            Read::Answer(answer) => {
                exchange.content();
                let found = answer.is_ok();
                exchange.answer(key, &version, answer);
                if found {
                    pace = Pace::new();
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
            () = exchange.asked_again() => pace = Pace::new(),
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
    match timeout(PATIENCE, api.get_opt(&profile.name)).await {
        Ok(Ok(Some(object))) => {
            Read::Answer(ProfileObject::read(object).map_err(|error| error.to_string()))
        }
        Ok(Ok(None)) => Read::Answer(Err(missing_profile(profile))),
        // Somebody has to grant it: the owner of the object must see why nothing happens.
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => Read::Answer(Err(format!(
            "NnfStorageProfile {profile} cannot be read: {}: grant this agent get on nnfstorageprofiles.nnf.cray.hpe.com",
            status.message
        ))),
        Ok(Err(error)) => Read::Failed(plain(&error)),
        Err(_) => Read::Failed(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}
