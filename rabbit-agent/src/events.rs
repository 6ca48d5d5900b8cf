//! Kubernetes Events: what `kubectl describe` shows of an object beside its status. They are news and nothing more: whoever
//! needs to know reads the status, and nothing here waits for an Event or fails with one.
//!
//! The same news of the same part of an object is told once in [`QUIET`], and all of a rabbit's as fast as [`Ledger`] lets
//! them; each is in the agent's log as well: good news from here, for whom the uid there leads from the steps to the object
//! and its workflow, and what went wrong from where it did.

mod ledger;
mod news;

use std::time::{Duration, Instant};

use api::names::label;
use apiclient::plain;
use daemon::vital;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, ResourceExt,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use storage::desired::NodeName;
use tokio::sync::mpsc;

use self::ledger::Ledger;
pub use self::news::News;
use crate::write::{Object, describe};

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
        let published = publish(Recorder::new(client, reporter), told);
        tokio::spawn(vital("who publishes Events", published));
        Self { tell: Some(tell) }
    }

    /// Hands in news of an object; waits for nobody.
    pub fn tell<K: Object>(&self, object: &K, news: impl IntoIterator<Item = News>) {
        for it in news {
            if !it.is_warning {
                log::info!("{}", line(object, &it));
            }
            let Some(tell) = &self.tell else { continue };
            let regarding =
                ObjectReference { field_path: it.part.clone(), ..object.object_ref(&()) };
            if tell.try_send((regarding, it)).is_err() {
                log::debug!("too much news at once: some is in this log only");
            }
        }
    }
}

/// Good news for the log. Steps name an allocation by its object's uid, and nothing else there tells whose that is.
fn line<K: Object>(object: &K, news: &News) -> String {
    let label = |key| object.labels().get(key).map_or("", String::as_str);
    let workflow = match (label(label::WORKFLOW_NAMESPACE), label(label::WORKFLOW_NAME)) {
        (_, "") => String::new(),
        (namespace, name) => format!(", workflow {namespace}/{name}"),
    };
    let (uid, note) = (object.uid().unwrap_or_default(), news.note());
    format!("{} (uid {uid}{workflow}): {note}", describe(object))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn good_news_lead_from_the_uid_of_steps_to_the_workflow() {
        let mut object = samples::block_storage_ready(1);
        let news = News::normal("AllocationMade", "Allocate", "made 1 namespaces".into());
        let told = |object: &_| line(object, &news);
        let uid = object.uid().unwrap();
        let name = format!("NnfNodeBlockStorage rabbit-1/{} (uid {uid}", samples::NAME);
        object.labels_mut().clear();
        assert_eq!(told(&object), format!("{name}): made 1 namespaces"));
        object.labels_mut().insert(label::WORKFLOW_NAME.into(), "job-7".into());
        object.labels_mut().insert(label::WORKFLOW_NAMESPACE.into(), "users".into());
        assert_eq!(told(&object), format!("{name}, workflow users/job-7): made 1 namespaces"));
    }
}
