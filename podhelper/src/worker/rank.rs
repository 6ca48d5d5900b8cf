//! A command that a worker runs: its start, input, output and end.

use std::{convert::Infallible, io, process::Stdio, time::Duration};

use futures::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy, sink},
    process::{Child, ChildStderr, ChildStdin, ChildStdout},
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::bytes::Bytes;

use super::{Stream, code};
use crate::{
    command::Command,
    message::{CHUNK, Message, Messages},
};

/// How long a command has to end after its launcher went away.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// Between two looks whether it has ended.
const PAUSE: Duration = Duration::from_millis(20);

/// Starts a command, as the first of a process group.
pub(super) fn spawn(command: &Command) -> io::Result<Child> {
    let (program, arguments) = command.words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    #[expect(clippy::disallowed_methods, reason = "this is no agent of a node")]
    let own = std::process::Command::new(program);
    tokio::process::Command::from(own)
        .args(arguments)
        .envs(command.environment(|name| std::env::var(name).ok()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// Forwards input and output until the command has ended or the launcher is gone, and ends the command's process group. Only a
/// process that made itself a daemon is left, as Open MPI's does.
pub(super) async fn run(
    mut child: Child,
    messages: Messages<Stream>,
    ending: watch::Receiver<bool>,
) -> io::Result<()> {
    let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let (mut sink, stream) = messages.split();
    let stdin = child.stdin.take();
    let mut output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut errors = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let is_over = tokio::select! {
        over = forward_output(&mut child, &mut output, &mut errors, &mut sink) => over.is_ok(),
        () = forward_input(stream, stdin) => false,
    };
    if let Some(group) = group {
        tokio::select! {
            ended = end(group, child, ending) => ended?,
            // The dying command must not block on output that nobody reads.
            never = drain(output, errors) => match never {},
        }
    }
    if is_over {
        return Ok(());
    }
    Err(io::Error::other("the launcher went away, and its command was ended"))
}

/// Ends what is left of a process group: asks it to, and kills it when it takes too long.
async fn end(group: Pid, mut child: Child, ending: watch::Receiver<bool>) -> io::Result<()> {
    if killpg(group, Signal::SIGTERM).is_ok() {
        tokio::select! {
            () = group_ended(group, &mut child) => {}
            () = grace(ending) => {
                // It may have ended at this moment.
                let _ = killpg(group, Signal::SIGKILL);
            }
        }
    }
    child.wait().await?;
    Ok(())
}

/// Returns when no process of the group is left.
async fn group_ended(group: Pid, first: &mut Child) {
    // A process that ended stays in the group until it is waited for.
    let _ = first.wait().await;
    while killpg(group, None).is_ok() {
        sleep(PAUSE).await;
    }
}

/// Drains output and errors so that the dying command does not block.
async fn drain(mut output: ChildStdout, mut errors: ChildStderr) -> Infallible {
    let (mut to, mut as_well) = (sink(), sink());
    let _ = tokio::join!(copy(&mut output, &mut to), copy(&mut errors, &mut as_well));
    std::future::pending().await
}

/// Returns when a command has had its grace period. In a pod that ends it has the pod's, after which the kubelet kills it.
async fn grace(mut ending: watch::Receiver<bool>) {
    if timeout(GRACE, ending.wait_for(|is| *is)).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// Forwards output and errors until no process has them open any more, then sends how the command ended.
async fn forward_output(
    child: &mut Child,
    output: &mut ChildStdout,
    errors: &mut ChildStderr,
    sink: &mut SplitSink<Messages<Stream>, Message>,
) -> io::Result<()> {
    let (mut said, mut complained) = (vec![0; CHUNK], vec![0; CHUNK]);
    let (mut says, mut complains) = (true, true);
    while says || complains {
        let message = tokio::select! {
            read = output.read(&mut said), if says => {
                let length = read?;
                says = length > 0;
                Message::Output(Bytes::copy_from_slice(&said[..length]))
            }
            read = errors.read(&mut complained), if complains => {
                let length = read?;
                complains = length > 0;
                Message::Errors(Bytes::copy_from_slice(&complained[..length]))
            }
        };
        sink.send(message).await?;
    }
    let status = child.wait().await?;
    sink.send(Message::End(code(status))).await?;
    sink.close().await
}

/// Forwards the launcher's input to the command. Returns when the launcher is gone.
async fn forward_input(mut stream: SplitStream<Messages<Stream>>, mut stdin: Option<ChildStdin>) {
    while let Some(Ok(message)) = stream.next().await {
        let is_taken = match (&message, &mut stdin) {
            (Message::Input(bytes), Some(stdin)) => stdin.write_all(bytes).await.is_ok(),
            _ => false,
        };
        // A command that reads no more is not at its end.
        if !is_taken {
            stdin = None;
        }
    }
}
