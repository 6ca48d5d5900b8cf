//! The writer thread. It commits all queued jobs with one fsync, then answers the clients and wakes the watches.

use super::disk::Disk;
use super::{Batch, Event, Shared, State};
use crate::admission::Admission;
use crate::object::Stored;
use crate::registry::Registry;
use crate::status::Status;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, mpsc};

/// Largest number of jobs in a commit. In a larger commit, the answer to the first job would wait too long for the last
/// job.
const BATCH: usize = 512;

#[derive(Debug)]
pub(crate) enum Outcome {
    Stored {
        code: u16,
        stored: Arc<Stored>,
        warnings: Vec<String>,
    },
    /// A `Status` object of success.
    Done(Value),
    Deleted(Vec<Arc<Stored>>),
}

pub(crate) type Apply = Box<dyn FnOnce(&mut Batch<'_>) -> Result<Outcome, Status> + Send>;
/// Rules for objects, which the caller of [`super::Store::open`] provides; the store itself has no rules.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Collects garbage: adds the changes that follow from the batch's events, from the event with this index on.
    pub(crate) collect_garbage: fn(&mut Batch<'_>, usize) -> Result<(), Status>,
    /// Functions that the verbs call before each change.
    pub(crate) admission: Admission,
}

/// Function that the writer calls with the result once the change is on disk or has failed. A writer that stops drops
/// the function without a call. The function runs on the writer's thread and must not block.
pub(crate) type Reply = Box<dyn FnOnce(Result<Outcome, Status>) + Send>;

pub(crate) struct Job {
    pub(crate) apply: Apply,
    /// True for a dry run, whose changes are dropped.
    pub(crate) dry_run: bool,
    pub(crate) reply: Reply,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("dry_run", &self.dry_run).finish_non_exhaustive()
    }
}

/// Ends the process when the writer panics. Otherwise the server would go on without a writer: it would answer reads,
/// perhaps from a half-changed state, and no write. After a restart the server has every acknowledged write.
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
            (rules.collect_garbage)(batch, before)?;
            Ok(outcome)
        });
        answers.push((job.reply, result));
    }
    let (events, registry) = batch.finish();
    let change = (!events.is_empty()).then_some((events, registry));
    (answers, change)
}

/// Shows a committed batch to readers, then wakes the watches of its resources.
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
        // Watches of resources without changes get the latest revision from time to time. Otherwise the log might no
        // longer reach back to the revision from which they would resume.
        *announced = revision;
        shared.signal_all(revision);
    } else {
        for resource in touched {
            shared.signal(&resource, revision);
        }
    }
}
