//! A program that runs for hours beside the agent. The agent writes lines to the program's standard input, and reads
//! the lines that the program prints.
//!
//! [`crate::cmd`] runs programs that end within a deadline, and keeps their output. This module starts the only program
//! that runs without a deadline: the program that copies the files of a data movement.

use std::{
    fmt,
    io::{self, BufRead, BufReader, PipeReader, Read, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{Arc, mpsc},
    thread,
};

use nix::{
    sys::{
        signal::{Signal, killpg},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};
use parking_lot::Mutex;

use crate::{child, hung};
use causes::CommandError;

/// Longest line that is read at once, in bytes. A longer line is read in pieces.
const LONGEST_LINE: u64 = 64 << 10;

/// Receives the lines that a program prints, and its exit status. A thread of the [`Worker`] calls the methods.
pub trait Listener: Send + 'static {
    /// Receives a line of standard output or standard error, without its line end.
    fn line(&mut self, line: &str);
    /// Receives the exit status when the program has ended. No line follows.
    fn ended(self, status: Option<ExitStatus>);
}

/// A running program. Dropping this closes the program's standard input.
pub struct Worker {
    input: Mutex<ChildStdin>,
    /// Process group of the program; `None` once the program has ended, because the kernel may then give the number to
    /// another process.
    group: Arc<Mutex<Option<Pid>>>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("group", &self.group).finish_non_exhaustive()
    }
}

/// A program that was started, for the thread that reads its output.
struct Started {
    child: Child,
    output: PipeReader,
    group: Arc<Mutex<Option<Pid>>>,
}

impl Worker {
    /// Starts a program with its arguments in a process group of its own. When the agent dies, the kernel kills the
    /// program if the program still runs as root (PR_SET_PDEATHSIG(2const)), and closes its standard input in any case.
    ///
    /// # Errors
    /// When the program or a thread cannot be started.
    pub fn start(
        (program, arguments): (&Path, Vec<String>),
        listener: impl Listener,
    ) -> Result<Self, CommandError> {
        let failed =
            |source| CommandError::Start { program: program.display().to_string(), source };
        let (sender, started) = mpsc::channel();
        let path = program.to_owned();
        // The kernel sends the signal of PR_SET_PDEATHSIG when the thread that started the program ends, so this thread
        // stays until the program ends.
        let follow = move || match spawn(&path, &arguments) {
            Ok((worker, started)) => {
                if sender.send(Ok(worker)).is_ok() {
                    follow(started, listener);
                }
            }
            // This cannot fail: the receiver waits for the result.
            Err(error) => drop(sender.send(Err(error))),
        };
        thread::Builder::new().name("worker".into()).spawn(follow).map_err(failed)?;
        let panicked = |_| io::Error::other("the thread that starts the program panicked");
        started.recv().map_err(|error| failed(panicked(error)))?.map_err(failed)
    }

    /// Writes a line to the program's standard input.
    ///
    /// # Errors
    /// When the program has closed its standard input.
    pub fn write_line(&self, line: &str) -> io::Result<()> {
        self.input.lock().write_all(format!("{line}\n").as_bytes())
    }

    /// Kills the process group.
    pub fn kill(&self) {
        if let Some(group) = *self.group.lock() {
            // ESRCH: the group has just ended.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }

    /// Describes each process of the program: where its threads wait in the kernel, and its open files
    /// that are not beneath `hidden`.
    #[must_use]
    pub fn describe_waits(&self, hidden: &Path) -> String {
        let group = *self.group.lock();
        group.map_or_else(String::new, |group| hung::work::group(group, hidden))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "cmd ends programs at a deadline, and gives them no standard input"
)]
fn spawn(program: &Path, arguments: &[String]) -> io::Result<(Worker, Started)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let (output, printed) = io::pipe()?;
    let mut command = Command::new(program);
    let mut child = child::kill_with_parent(&mut command)
        .args(arguments)
        .env_clear()
        .env("PATH", path)
        .env("LC_ALL", "C")
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(printed.try_clone()?)
        .stderr(printed)
        .spawn()?;
    let input = child
        .stdin
        .take()
        .ok_or_else(|| io::Error::other("the program has no pipe for its standard input"))?;
    let group = Arc::new(Mutex::new(Some(Pid::from_raw(child.id().cast_signed()))));
    let worker = Worker { input: Mutex::new(input), group: Arc::clone(&group) };
    Ok((worker, Started { child, output, group }))
}

/// Reads all lines, and waits until the program ends.
fn follow(started: Started, mut listener: impl Listener) {
    let Started { mut child, output, group } = started;
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while let Ok(1..) = (&mut output).take(LONGEST_LINE).read_until(b'\n', &mut line) {
        listener.line(String::from_utf8_lossy(&line).trim_end_matches('\n'));
        line.clear();
    }
    // Keep the program as a zombie until `group` is cleared. While the zombie exists, the kernel gives its number to no
    // other process, so that `kill` cannot kill another process.
    let pid = Id::Pid(Pid::from_raw(child.id().cast_signed()));
    let _ = waitid(pid, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
    let mut group = group.lock();
    *group = None;
    let status = child.wait().ok();
    drop(group);
    listener.ended(status);
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    struct Collector(mpsc::Sender<Result<String, Option<ExitStatus>>>);

    impl Listener for Collector {
        fn line(&mut self, line: &str) {
            self.0.send(Ok(line.to_owned())).unwrap();
        }

        fn ended(self, status: Option<ExitStatus>) {
            self.0.send(Err(status)).unwrap();
        }
    }

    #[test]
    fn the_listener_receives_each_line_until_the_worker_is_dropped() {
        let (sender, received) = mpsc::channel();
        let worker = Worker::start((Path::new("cat"), Vec::new()), Collector(sender)).unwrap();
        worker.write_line("line").unwrap();
        assert_eq!(received.recv().unwrap(), Ok("line".to_owned()));
        let waits = worker.describe_waits(Path::new("/nowhere"));
        assert!(waits.contains("(cat): threads: 1"), "{waits}");
        drop(worker);
        assert!(received.recv().unwrap().unwrap_err().unwrap().success());
    }

    #[test]
    fn the_listener_receives_the_signal_that_killed_the_program() {
        let (sender, received) = mpsc::channel();
        let worker = Worker::start((Path::new("cat"), Vec::new()), Collector(sender)).unwrap();
        worker.kill();
        let status = received.recv().unwrap().unwrap_err().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL));
        worker.kill();
        assert_eq!(worker.describe_waits(Path::new("/nowhere")), "");
    }

    #[test]
    fn start_fails_when_the_program_does_not_exist() {
        let (sender, _received) = mpsc::channel();
        let error = Worker::start((Path::new("/nowhere/datamover"), Vec::new()), Collector(sender))
            .unwrap_err();
        assert!(error.is_not_installed(), "{error}");
        assert!(error.to_string().contains("/nowhere/datamover"));
    }
}
