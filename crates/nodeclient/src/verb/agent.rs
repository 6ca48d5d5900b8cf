//! How a verb talks with this node's agent.

use std::path::Path;
use std::time::Duration;

use proto::v1::job_news::News;
use proto::v1::node_client::NodeClient;
use proto::v1::{JobNews, JobOutcome};
use tokio::time::{Instant, sleep, timeout_at};
use tonic::transport::Channel;
use tonic::{Code, Response, Status as Answer, Streaming};

use crate::connect::channel_over_unix;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

const REMEDY: &str = "is the agent of this node installed? Start it with `systemctl start warren-clientmount-agent.socket` or warren-clientmount-agent.service, or name its socket with --listen";
/// How long an agent may be away: one that ends because it was idle, or is replaced by an upgrade, is back soon.
const AWAY: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);
/// What an agent may need beyond the deadline, to signal or to detach.
const MARGIN: Duration = Duration::from_secs(40);
/// For an answer that needs no waiting.
const PATIENCE: Duration = Duration::from_secs(60);

type Call = Result<Response<Streaming<JobNews>>, Answer>;

/// Calls the agent until it reports an outcome. An agent that goes away meanwhile is called again, with the time that is left.
pub(super) async fn outcome(
    socket: &Path,
    deadline: Duration,
    output: Output,
    call: impl AsyncFn(NodeClient<Channel>, u64) -> Call,
) -> Result<JobOutcome, Failure> {
    let (end, mut last_answer) = (Instant::now() + deadline, Instant::now());
    loop {
        let failure = match once(socket, end, output, &mut last_answer, &call).await {
            Ok(outcome) => return Ok(outcome),
            Err(failure) => failure,
        };
        let now = Instant::now();
        if failure.exit != Exit::NoAgent || now >= end.min(last_answer + AWAY) {
            return Err(failure);
        }
        sleep(PAUSE).await;
    }
}

async fn once(
    socket: &Path,
    end: Instant,
    output: Output,
    last_answer: &mut Instant,
    call: &impl AsyncFn(NodeClient<Channel>, u64) -> Call,
) -> Result<JobOutcome, Failure> {
    let conversation = async {
        let agent = connect(socket).await?;
        let left = end.saturating_duration_since(Instant::now()).as_millis();
        let called = call(agent, u64::try_from(left).unwrap_or(u64::MAX)).await;
        let mut messages = called.map_err(|status| refused(&status))?.into_inner();
        while let Some(message) = messages.message().await.map_err(|status| refused(&status))? {
            *last_answer = Instant::now();
            match message.news {
                Some(News::Waiting(why)) => output.progress(&why),
                Some(News::Outcome(outcome)) => return Ok(outcome),
                None => {}
            }
        }
        Err(Failure::new(Exit::NoAgent, "the agent ended without an answer").remedy(REMEDY))
    };
    timeout_at(end + MARGIN, conversation).await.unwrap_or_else(|_| Err(late()))
}

/// Asks the agent once; one that is about to end because it was idle is asked again.
pub(super) async fn ask<T>(
    socket: &Path,
    call: impl AsyncFn(NodeClient<Channel>) -> Result<Response<T>, Answer>,
) -> Result<T, Failure> {
    let end = Instant::now() + PATIENCE;
    let mut is_first = true;
    loop {
        let answer = async {
            let agent = connect(socket).await?;
            call(agent).await.map_err(|status| refused(&status))
        };
        match timeout_at(end, answer).await.unwrap_or_else(|_| Err(late())) {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(failure) if failure.exit == Exit::NoAgent && is_first => {
                is_first = false;
                sleep(PAUSE).await;
            }
            Err(failure) => return Err(failure),
        }
    }
}

async fn connect(socket: &Path) -> Result<NodeClient<Channel>, Failure> {
    let channel = channel_over_unix(socket, REMEDY).await.map_err(Failure::of_agent)?;
    Ok(NodeClient::new(channel).max_decoding_message_size(usize::MAX))
}

fn late() -> Failure {
    Failure::new(Exit::NoAgent, "the agent did not answer in time")
        .remedy("its log tells what it does: journalctl -u warren-clientmount-agent")
}

fn refused(status: &Answer) -> Failure {
    if status.code() == Code::Unimplemented {
        return Failure::new(Exit::Failed, "this node's agent is older than this command")
            .remedy("restart it: systemctl restart warren-clientmount-agent");
    }
    // A connection that breaks shows as one of several.
    let failure = if matches!(status.code(), Code::Unknown | Code::Cancelled | Code::Internal) {
        Failure::unreachable("ask the agent", status, REMEDY)
    } else {
        Failure::grpc("ask the agent", status)
    };
    failure.of_agent()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_cannot_be_asked_is_no_coordinator_out_of_reach() {
        for (code, exit) in [
            (Code::Unavailable, Exit::NoAgent),
            (Code::Unknown, Exit::NoAgent),
            (Code::Internal, Exit::NoAgent),
            (Code::InvalidArgument, Exit::Usage),
            (Code::Unimplemented, Exit::Failed),
        ] {
            assert_eq!(refused(&Answer::new(code, "why")).exit, exit, "{code:?}");
        }
    }
}
