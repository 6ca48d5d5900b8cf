//! Kubernetes Events: what `kubectl describe` shows of an object beside its status. They are news and nothing more: whoever
//! needs to know reads the status, and nothing here waits for an Event or fails with one.
//!
//! The same news of the same part of an object is told once in [`QUIET`], and all of a rabbit's as fast as [`Ledger`] lets
//! them; each is in the agent's log as well.

mod ledger;
mod news;

use std::time::{Duration, Instant};

use apiclient::plain;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use storage::desired::NodeName;
use tokio::sync::mpsc;

use self::ledger::Ledger;
pub use self::news::News;
use crate::write::Object;

/// How long the same news is none. Longer than [`Recorder`] remembers what it told, so that it never has to patch.
const QUIET: Duration = Duration::from_secs(600);
/// After a refusal: a right that is missing now may be given later.
const REFUSED: Duration = Duration::from_secs(3600);
/// News that wait to be told; what comes while there are so many is in the log only.
const WAITING: usize = 64;
/// How long the API may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where news is handed in.
#[derive(Debug, Clone, Default)]
pub struct Events {
    tell: Option<mpsc::Sender<(ObjectReference, News)>>,
}

impl Events {
    /// Tells what is handed in from now on, until nobody can hand in any more.
    #[must_use]
    pub fn new(client: Client, node: &NodeName) -> Self {
        let (tell, told) = mpsc::channel(WAITING);
        let reporter =
            Reporter { controller: "rabbit-agent".to_owned(), instance: Some(node.to_string()) };
        tokio::spawn(publish(Recorder::new(client, reporter), told));
        Self { tell: Some(tell) }
    }

    /// Hands in news of an object; waits for nobody.
    pub fn tell<K: Object>(&self, object: &K, news: impl IntoIterator<Item = News>) {
        let Some(tell) = &self.tell else { return };
        for it in news {
            let regarding =
                ObjectReference { field_path: it.part.clone(), ..object.object_ref(&()) };
            if tell.try_send((regarding, it)).is_err() {
                log::debug!("too much news at once: some is in this log only");
            }
        }
    }
}

async fn publish(recorder: Recorder, mut told: mpsc::Receiver<(ObjectReference, News)>) {
    let mut ledger = Ledger::new(QUIET, REFUSED);
    while let Some((regarding, news)) = told.recv().await {
        if !ledger.admits(&regarding, &news, Instant::now()) {
            continue;
        }
        let event = Event {
            type_: if news.is_warning { EventType::Warning } else { EventType::Normal },
            reason: news.reason.to_owned(),
            note: Some(news.note()),
            action: news.action.to_owned(),
            secondary: None,
        };
        let published = tokio::time::timeout(PATIENCE, recorder.publish(&event, &regarding)).await;
        let why = match published {
            Ok(Ok(())) => {
                ledger.told();
                continue;
            }
            Ok(Err(error)) if is_refused(&error) => ledger.refused(plain(&error), Instant::now()),
            Ok(Err(error)) => ledger.failed(plain(&error)),
            Err(_) => ledger.failed(format!("no answer within {} s", PATIENCE.as_secs())),
        };
        if let Some(why) = why {
            log::info!("Events are not told ({why}): what they would tell is in this log");
        }
    }
}

/// Whether the API will say the same to the next one: no right to, or no Events at all.
fn is_refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 401 | 403 | 404 | 405))
}
