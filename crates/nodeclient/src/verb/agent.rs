//! Calls this node's agent.

use std::path::Path;
use std::time::Duration;

use cli::Exit;
use cli::Failure;
use cli::Output;
use cli::channel_over_unix;
use proto::v1::job_news::News;
use proto::v1::node_client::NodeClient;
use proto::v1::{JobNews, JobOutcome};
use tokio::time::{Instant, sleep, timeout_at};
use tonic::transport::Channel;
use tonic::{Code, Response, Status as Answer, Streaming};

const REMEDY: &str = "start the agent with `systemctl start warren-clientmount-agent.socket` (or warren-clientmount-agent.service), or name its socket with --listen";
/// Time for which a verb tries to reach an absent agent: an agent that exited when idle, or that is being upgraded,
/// starts again within this time.
const AWAY: Duration = Duration::from_secs(10);
/// Interval between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(100);
/// Time after the deadline that the agent may need to signal processes or to detach mounts.
const MARGIN: Duration = Duration::from_secs(40);
/// Deadline of requests that the agent answers at once.
const PATIENCE: Duration = Duration::from_secs(60);

type Call = Result<Response<Streaming<JobNews>>, Answer>;

/// Calls the agent, and waits until the agent reports an outcome. If the agent exits before it has reported one, calls
/// the agent again with the remaining time.
pub(super) async fn outcome(
    socket: &Path,
    deadline: Duration,
    output: Output,
    call: impl AsyncFn(NodeClient<Channel>, u64) -> Call,
) -> Result<JobOutcome, Failure> {
    let (end, mut last_answer) = (Instant::now() + deadline, Instant::now());
    loop {
        let failure = match call_once(socket, end, output, &mut last_answer, &call).await {
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

async fn call_once(
    socket: &Path,
    end: Instant,
    output: Output,
    last_answer: &mut Instant,
    call: &impl AsyncFn(NodeClient<Channel>, u64) -> Call,
) -> Result<JobOutcome, Failure> {
    let conversation = async {
        let agent = connect(socket).await?;
        let remaining = end.saturating_duration_since(Instant::now()).as_millis();
        let called = call(agent, u64::try_from(remaining).unwrap_or(u64::MAX)).await;
        let mut messages = called.map_err(|status| call_failure(&status))?.into_inner();
        while let Some(message) =
            messages.message().await.map_err(|status| call_failure(&status))?
        {
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

/// Sends one request to the agent. Repeats the request once if the agent was not reachable: it may just have exited
/// because it was idle, and systemd starts it again.
pub(super) async fn call_agent<T>(
    socket: &Path,
    call: impl AsyncFn(NodeClient<Channel>) -> Result<Response<T>, Answer>,
) -> Result<T, Failure> {
    let end = Instant::now() + PATIENCE;
    let mut is_first = true;
    loop {
        let answer = async {
            let agent = connect(socket).await?;
            call(agent).await.map_err(|status| call_failure(&status))
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
        .remedy("see its log: journalctl -u warren-clientmount-agent")
}

fn call_failure(status: &Answer) -> Failure {
    if status.code() == Code::Unimplemented {
        return Failure::new(Exit::Failed, "this node's agent is older than this command")
            .remedy("restart it: systemctl restart warren-clientmount-agent");
    }
    // tonic reports a broken connection with any of these codes.
    let failure = if matches!(status.code(), Code::Unknown | Code::Cancelled | Code::Internal) {
        Failure::unreachable("call the agent", status, REMEDY)
    } else {
        Failure::grpc("call the agent", status)
    };
    failure.of_agent()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_agent_has_its_own_exit_status() {
        for (code, exit) in [
            (Code::Unavailable, Exit::NoAgent),
            (Code::Unknown, Exit::NoAgent),
            (Code::Internal, Exit::NoAgent),
            (Code::InvalidArgument, Exit::Usage),
            (Code::Unimplemented, Exit::Failed),
        ] {
            assert_eq!(call_failure(&Answer::new(code, "why")).exit, exit, "{code:?}");
        }
    }
}
