//! How a job is, whenever that changes, and when a deadline passes.

use std::pin::Pin;

use daemon::sleep_until;
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use proto::v1::Workload;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use workload::Seen;

use super::answer;
use super::deadlines::Deadlines;
use super::job::{Job, instant_of};

/// Answers that wait for a slow reader.
const AHEAD: usize = 4;

pub(super) type Watching = Pin<Box<dyn Stream<Item = Result<Workload, Status>> + Send>>;

/// The answers until the job is gone, the coordinator stops, or nobody reads on.
pub(super) fn watching(job: Job) -> Watching {
    let (send, receive) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let ended = tokio::select! {
            ended = send_answers(&job, &send) => ended,
            status = job.stopped() => Err(status),
            () = send.closed() => Ok(()),
        };
        if let Err(status) = ended {
            // A reader that went away needs no reason.
            let _ = send.send(Err(status)).await;
        }
    });
    Box::pin(ReceiverStream::new(receive))
}

async fn send_answers(
    job: &Job,
    send: &mpsc::Sender<Result<Workload, Status>>,
) -> Result<(), Status> {
    let mut events = std::pin::pin!(job.flow.events());
    let mut known = None;
    let mut sent = None;
    loop {
        let now = Timestamp::now();
        if let Some(workflow) = &known {
            if !answer::is_of(workflow, &job.id) {
                return Ok(());
            }
            job.caller.check(workflow)?;
            let ending = answer::at_rest(workflow, now);
            let new = answer::ended(answer::workload(&job.id, workflow, now), workflow, &ending);
            if sent.as_ref() != Some(&new) && send.send(Ok(new.clone())).await.is_err() {
                return Ok(());
            }
            sent = Some(new);
        }
        let next = known.as_ref().and_then(|workflow| Deadlines::of(workflow).next(now));
        tokio::select! {
            seen = events.next() => match seen {
                Some(Seen::Workflow(workflow)) => known = Some(*workflow),
                Some(Seen::Trouble(_)) => {}
                Some(Seen::Gone) => return Ok(()),
                None => return Err(Status::unavailable("the watch ended; call again")),
            },
            () = sleep_until(next.map(instant_of)) => {}
        }
    }
}
