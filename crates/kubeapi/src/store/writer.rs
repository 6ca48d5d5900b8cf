//! The writer thread: it takes all queued jobs, commits them with one fsync, then answers clients and wakes watches.

use super::disk::Disk;
use super::{Batch, Event, Shared, State};
use crate::admission::Admission;
use crate::object::Stored;
use crate::registry::Registry;
use crate::status::Status;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, mpsc};

/// Jobs in one commit. More would make the first of them wait for the last.
const BATCH: usize = 512;

#[derive(Debug)]
pub(crate) enum Outcome {
    Stored {
        code: u16,
        stored: Arc<Stored>,
        warnings: Vec<String>,
    },
    /// A `Status` of success.
    Done(Value),
    Deleted(Vec<Arc<Stored>>),
}

pub(crate) type Apply = Box<dyn FnOnce(&mut Batch<'_>) -> Result<Outcome, Status> + Send>;
/// Rules for objects, given by whoever opens the store; the store itself knows none.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Adds the changes that follow from the batch's events, from this index on.
    pub(crate) settle: fn(&mut Batch<'_>, usize) -> Result<(), Status>,
    /// The verbs call it before each change.
    pub(crate) admission: Admission,
}

/// Called when the change is on disk, or with why it is not; dropped when the writer stops. It runs on the writer's thread
/// and must not block.
pub(crate) type Reply = Box<dyn FnOnce(Result<Outcome, Status>) + Send>;

pub(crate) struct Job {
    pub(crate) apply: Apply,
    /// Whether the changes are only tried.
    pub(crate) dry_run: bool,
    pub(crate) reply: Reply,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("dry_run", &self.dry_run).finish_non_exhaustive()
    }
}

/// Ends the process when the writer panics. Memory may then be half changed, and a server that reads but can no longer write
/// would look alive for ever; started anew it has everything that was acknowledged.
struct FailStop;

impl Drop for FailStop {
    fn drop(&mut self) {
        if std::thread::panicking() {
            log::error!(
                "the API store's writer panicked: the process ends, acknowledged writes are on disk"
            );
            std::process::abort();
        }
    }
}

pub(super) fn run(shared: &Shared, mut disk: Disk, jobs: &mpsc::Receiver<Job>, rules: &Rules) {
    let _fail_stop = FailStop;
    let mut announced = shared.read().revision;
    while let Ok(first) = jobs.recv() {
        let batch: Vec<Job> =
            std::iter::once(first).chain(jobs.try_iter().take(BATCH - 1)).collect();
        let (answers, change) = apply(&shared.read(), batch, rules);
        let committed = match &change {
            Some((events, _)) => disk.commit(&shared.read(), events),
            None => Ok(()),
        };
        match committed {
            Ok(()) => {
                if let Some((events, registry)) = change {
                    publish(shared, events, registry, &mut announced);
                }
                for (reply, result) in answers {
                    reply(result);
                }
            }
            Err(error) => {
                let source =
                    std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                log::error!(error:% = error, cause:% = source; "a batch of writes was not stored");
                let status = if error.is_full() {
                    Status::out_of_space(&source)
                } else {
                    Status::internal(format!("{error}: {source}"))
                };
                for (reply, _) in answers {
                    reply(Err(status.clone()));
                }
            }
        }
    }
}

type Answers = Vec<(Reply, Result<Outcome, Status>)>;
type Change = (Vec<Arc<Event>>, Arc<Registry>);

fn apply(state: &State, jobs: Vec<Job>, rules: &Rules) -> (Answers, Option<Change>) {
    let mut batch = Batch::new(state, &rules.admission);
    let mut answers = Vec::with_capacity(jobs.len());
    for job in jobs {
        let before = batch.events().len();
        let result = batch.run(!job.dry_run, |batch| {
            let outcome = (job.apply)(batch)?;
            (rules.settle)(batch, before)?;
            Ok(outcome)
        });
        answers.push((job.reply, result));
    }
    let (events, registry) = batch.finish();
    let change = (!events.is_empty()).then_some((events, registry));
    (answers, change)
}

/// Shows a committed batch to readers, then wakes the watches that it concerns.
fn publish(shared: &Shared, events: Vec<Arc<Event>>, registry: Arc<Registry>, announced: &mut u64) {
    let mut touched: BTreeSet<Arc<str>> =
        events.iter().map(|event| Arc::clone(&event.key.resource)).collect();
    let (revision, stale) = {
        let mut state = shared.state.write().unwrap_or_else(PoisonError::into_inner);
        let redefined = !Arc::ptr_eq(&state.registry, &registry);
        let before = Arc::clone(&state.registry);
        for event in events {
            let stored = match event.verb {
                super::Verb::Added | super::Verb::Modified => Some(&event.object),
                super::Verb::Deleted => None,
            };
            state.revision = event.revision;
            state.set(&event.key, stored);
            state.unread.remove(&event.key);
            state.log.push(event);
        }
        if redefined {
            touched.extend(
                before.iter().chain(registry.iter()).map(|definition| Arc::clone(&definition.id)),
            );
            state.adopt(registry);
        }
        (state.revision, state.log.has_aged(*announced))
    };
    if stale {
        // Watches of quiet resources hear from time to time how far the log is, so that their place in it does not expire.
        *announced = revision;
        shared.signal_all(revision);
    } else {
        for resource in touched {
            shared.signal(&resource, revision);
        }
    }
}
