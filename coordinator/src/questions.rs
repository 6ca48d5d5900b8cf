//! The questions of a node about jobs. The coordinator answers each question at once, and again
//! whenever the answer changes.

use jobs::Questions;
use proto::limits::{NAME, shortened};
use proto::v1::job_name::Name;
use proto::v1::{JobAnswer, JobName, WatchJob};

use crate::hub::{Hub, Session};

/// Largest number of open questions of one node: each script that waits for a job opens a question, and
/// so does the agent.
const MOST_QUESTIONS: usize = 64;

/// Opens a question of the node. If the node has too many questions, closes the oldest.
pub(crate) fn open(questions: &mut Questions, hub: &Hub, session: &Session, question: WatchJob) {
    questions.open(question.id, question.job.map(bounded));
    questions.limit(MOST_QUESTIONS);
    hub.exchange().set_watches_job(&session.node, true);
}

/// Closes a question of the node.
pub(crate) fn close(questions: &mut Questions, hub: &Hub, session: &Session, id: u64) {
    questions.close(id);
    if questions.is_empty() {
        hub.exchange().set_watches_job(&session.node, false);
    }
}

/// Returns the next answer for the node; `None` if no answer has changed. Also returns `None` until the node has
/// received all its objects, because the answers describe these objects.
pub(crate) fn next(questions: &mut Questions, hub: &Hub, session: &Session) -> Option<JobAnswer> {
    let Session { node, epoch, .. } = session;
    questions.next(node, |matches| hub.exchange().job_mounts(node, *epoch, matches))
}

/// Shortens a name that is too long. No job has a name of the shortened name's length, so the answer does not change.
fn bounded(job: JobName) -> JobName {
    let shortened = |name| shortened(name, NAME);
    let name = job.name.map(|name| match name {
        Name::Job(job) => Name::Job(shortened(job)),
        Name::Workflow(workflow) => Name::Workflow(shortened(workflow)),
    });
    JobName { name }
}
