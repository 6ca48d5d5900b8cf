//! Runs a command of a worker: its start, input, output and end.

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

use super::{Stream, exit_code};
use crate::{
    command::Command,
    message::{CHUNK, Message, Messages},
};

/// Grace period of a command whose launcher has disconnected.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// Time between two checks whether the group has ended.
const PAUSE: Duration = Duration::from_millis(20);

/// Starts a command as the leader of a process group.
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

/// Forwards input and output until the command ends or the launcher disconnects, then ends the command's process group.
/// A process that made itself a daemon, as Open MPI's does, survives.
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
            // The dying command must not block on unread output.
            never = drain(output, errors) => match never {},
        }
    }
    if is_over {
        return Ok(());
    }
    Err(io::Error::other("the launcher disconnected, so its command was ended"))
}

/// Ends a process group: with SIGTERM, and with SIGKILL after the grace period.
async fn end(group: Pid, mut child: Child, ending: watch::Receiver<bool>) -> io::Result<()> {
    if killpg(group, Signal::SIGTERM).is_ok() {
        tokio::select! {
            () = wait_for_group(group, &mut child) => {}
            () = grace(ending) => {
                // The group may have ended at this moment.
                let _ = killpg(group, Signal::SIGKILL);
            }
        }
    }
    child.wait().await?;
    Ok(())
}

/// Waits until no process of the group is left.
async fn wait_for_group(group: Pid, first: &mut Child) {
    // A process that ended stays in the group until it is reaped.
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

/// Waits for the grace period of a command. In a pod that ends it is the pod's, after which the
/// kubelet kills the command.
async fn grace(mut ending: watch::Receiver<bool>) {
    if timeout(GRACE, ending.wait_for(|is| *is)).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// Forwards output and errors until no process has them open, then sends the exit code.
async fn forward_output(
    child: &mut Child,
    output: &mut ChildStdout,
    errors: &mut ChildStderr,
    sink: &mut SplitSink<Messages<Stream>, Message>,
) -> io::Result<()> {
    let (mut output_buffer, mut errors_buffer) = (vec![0; CHUNK], vec![0; CHUNK]);
    let (mut has_output, mut has_errors) = (true, true);
    while has_output || has_errors {
        let message = tokio::select! {
            read = output.read(&mut output_buffer), if has_output => {
                let length = read?;
                has_output = length > 0;
                Message::Output(Bytes::copy_from_slice(&output_buffer[..length]))
            }
            read = errors.read(&mut errors_buffer), if has_errors => {
                let length = read?;
                has_errors = length > 0;
                Message::Errors(Bytes::copy_from_slice(&errors_buffer[..length]))
            }
        };
        sink.send(message).await?;
    }
    let status = child.wait().await?;
    sink.send(Message::End(exit_code(status))).await?;
    sink.close().await
}

/// Forwards the launcher's input to the command. Returns when the launcher disconnects.
async fn forward_input(mut stream: SplitStream<Messages<Stream>>, mut stdin: Option<ChildStdin>) {
    while let Some(Ok(message)) = stream.next().await {
        let is_written = match (&message, &mut stdin) {
            (Message::Input(bytes), Some(stdin)) => stdin.write_all(bytes).await.is_ok(),
            _ => false,
        };
        // A command that closes its input may still run.
        if !is_written {
            stdin = None;
        }
    }
}
