//! Kubernetes Events, which `kubectl describe` shows beside an object's status. No step waits for an Event, or fails
//! because an Event cannot be published: programs read the status, which is complete.
//!
//! A note is the content of an Event. A controller publishes the same note about the same part of an object at most
//! once in [`QUIET`], and all notes together at most at the rate that [`Limiter`] allows. Each note is also logged:
//! successes here, failures where they occur.

mod limit;
mod note;

use std::time::{Duration, Instant};

use api::names::label;
use apiclient::plain;
use daemon::vital;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, ResourceExt,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::sync::mpsc;

use self::limit::Limiter;
pub use self::note::Note;
use crate::object::{Object, describe};

/// Time in which the same note is not published again. kube's [`Recorder`] patches an Event that it still remembers,
/// instead of creating a new one. This time is longer than the [`Recorder`]'s memory, so programs need no right to
/// patch Events.
const QUIET: Duration = Duration::from_secs(600);
/// Time for which no note is published after the API has refused an Event. Afterwards publishing is tried again,
/// because an administrator may have granted the missing right.
const REFUSED: Duration = Duration::from_secs(3600);
/// Number of notes that may wait to be published; further notes are only logged.
const WAITING: usize = 64;
/// Time that the API may take to answer.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(10);

/// Publisher of a controller's notes.
#[derive(Debug, Clone, Default)]
pub struct Events {
    queue: Option<mpsc::Sender<(ObjectReference, Note)>>,
}

impl Events {
    /// Returns a publisher that names `program` on `node` as the reporter; it works until all of
    /// its clones are dropped.
    #[must_use]
    pub fn new(client: Client, program: &str, node: &str) -> Self {
        let (queue, notes) = mpsc::channel(WAITING);
        let reporter = Reporter { controller: program.to_owned(), instance: Some(node.to_owned()) };
        let published = publish(Recorder::new(client, reporter), notes);
        tokio::spawn(vital("the task that publishes Events", published));
        Self { queue: Some(queue) }
    }

    /// Queues notes about an object, without waiting.
    pub fn queue<K: Object>(&self, object: &K, notes: impl IntoIterator<Item = Note>) {
        for note in notes {
            if !note.is_warning {
                log::info!("{}", line(object, &note));
            }
            let Some(queue) = &self.queue else { continue };
            let regarding =
                ObjectReference { field_path: note.part.clone(), ..object.object_ref(&()) };
            if queue.try_send((regarding, note)).is_err() {
                log::debug!("too many Events at once: some are only in this log");
            }
        }
    }
}

/// Returns the log line of a success. The line contains the object's uid, because the log lines of steps name an
/// allocation only by that uid: a reader can connect the lines.
fn line<K: Object>(object: &K, note: &Note) -> String {
    let label = |key| object.labels().get(key).map_or("", String::as_str);
    let workflow = match (label(label::WORKFLOW_NAMESPACE), label(label::WORKFLOW_NAME)) {
        (_, "") => String::new(),
        (namespace, name) => format!(", workflow {namespace}/{name}"),
    };
    let (uid, text) = (object.uid().unwrap_or_default(), note.text());
    format!("{} (uid {uid}{workflow}): {text}", describe(object))
}

async fn publish(recorder: Recorder, mut notes: mpsc::Receiver<(ObjectReference, Note)>) {
    let mut limiter = Limiter::new(QUIET, REFUSED);
    while let Some((regarding, note)) = notes.recv().await {
        if !limiter.admits(&regarding, &note, Instant::now()) {
            continue;
        }
        let event = Event {
            type_: if note.is_warning { EventType::Warning } else { EventType::Normal },
            reason: note.reason.to_owned(),
            note: Some(note.text()),
            action: note.action.to_owned(),
            secondary: None,
        };
        let published =
            tokio::time::timeout(PUBLISH_TIMEOUT, recorder.publish(&event, &regarding)).await;
        let why = match published {
            Ok(Ok(())) => {
                limiter.published();
                continue;
            }
            Ok(Err(error)) if is_refused(&error) => limiter.refused(plain(&error), Instant::now()),
            Ok(Err(error)) => limiter.failed(plain(&error)),
            Err(_) => limiter.failed(format!("no answer within {} s", PUBLISH_TIMEOUT.as_secs())),
        };
        if let Some(why) = why {
            log::info!("Events cannot be published ({why}): read their texts in this log");
        }
    }
}

/// Returns whether the API will refuse further Events as well: the right is missing, or the API has no Events.
fn is_refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 401 | 403 | 404 | 405))
}

#[cfg(test)]
mod tests {
    use api::NnfNodeBlockStorage;

    use super::*;

    fn spec() -> api::NnfNodeBlockStorageSpec {
        api::NnfNodeBlockStorageSpec { shared_allocation: false, allocations: Vec::new() }
    }

    #[test]
    fn the_log_line_of_a_note_has_the_objects_uid_and_its_workflow() {
        let mut object = NnfNodeBlockStorage::new("job-7-0", spec());
        object.metadata.namespace = Some("rabbit-1".into());
        object.metadata.uid = Some("4711".into());
        let note = Note::normal("AllocationMade", "Allocate", "made 1 namespaces".into());
        let name = "NnfNodeBlockStorage rabbit-1/job-7-0 (uid 4711";
        assert_eq!(line(&object, &note), format!("{name}): made 1 namespaces"));
        object.labels_mut().insert(label::WORKFLOW_NAME.into(), "job-7".into());
        object.labels_mut().insert(label::WORKFLOW_NAMESPACE.into(), "users".into());
        let logged = line(&object, &note);
        assert_eq!(logged, format!("{name}, workflow users/job-7): made 1 namespaces"));
    }
}
