//! Streams a job's state: an answer after each change, and an answer after each deadline that passes.

use std::pin::Pin;

use daemon::sleep_until;
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use proto::v1::Workload;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use workload::FlowEvent;

use super::answer;
use super::deadlines::Deadlines;
use super::job::{Job, instant_of};

/// Number of answers that may wait for a slow reader.
const AHEAD: usize = 4;

pub(super) type Watching = Pin<Box<dyn Stream<Item = Result<Workload, Status>> + Send>>;

/// Streams answers until the job is gone, the coordinator stops, or the reader closes the stream.
pub(super) fn watch_job(job: Job) -> Watching {
    let (send, receive) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let result = tokio::select! {
            result = send_answers(&job, &send) => result,
            status = job.stopped() => Err(status),
            () = send.closed() => Ok(()),
        };
        if let Err(status) = result {
            // Sending fails only if the reader has closed the stream.
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
            if !answer::belongs_to(workflow, &job.id) {
                return Ok(());
            }
            job.caller.check(workflow)?;
            let ending = answer::current_ending(workflow, now);
            let new =
                answer::with_verdict(answer::workload(&job.id, workflow, now), workflow, &ending);
            if sent.as_ref() != Some(&new) && send.send(Ok(new.clone())).await.is_err() {
                return Ok(());
            }
            sent = Some(new);
        }
        let next = known.as_ref().and_then(|workflow| Deadlines::read(workflow).next(now));
        tokio::select! {
            event = events.next() => match event {
                Some(FlowEvent::Workflow(workflow)) => known = Some(*workflow),
                Some(FlowEvent::Trouble(_)) => {}
                Some(FlowEvent::Gone) => return Ok(()),
                None => return Err(Status::unavailable("the coordinator's watch on the Workflow ended; call again")),
            },
            () = sleep_until(next.map(instant_of)) => {}
        }
    }
}
