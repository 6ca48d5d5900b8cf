//! A program that runs for hours beside the agent. The agent writes lines to its standard input, and reads the lines that it prints.
//!
//! [`super::cmd`] runs programs that end within a deadline, and keeps their output. This module starts the only program that does
//! neither: the copier of a data movement.

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

use super::{child, hung};
use crate::host::CommandError;

/// Longest line that is read at once, in bytes. A longer one comes in pieces.
const LONGEST_LINE: u64 = 64 << 10;

/// Receives what a worker prints, and its end. A thread of the worker calls it.
pub trait Listener: Send + 'static {
    /// A line of standard output or standard error, without its end.
    fn line(&mut self, line: &str);
    /// The program has ended. No line comes after this.
    fn ended(self, status: Option<ExitStatus>);
}

/// A running program. Dropping this closes the program's standard input.
pub struct Worker {
    input: Mutex<ChildStdin>,
    /// Process group of the program; `None` once the program has ended, because the kernel may give the number away again.
    group: Arc<Mutex<Option<Pid>>>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("group", &self.group).finish_non_exhaustive()
    }
}

/// A program that was started, before it is handed over.
struct Started {
    child: Child,
    output: PipeReader,
    group: Arc<Mutex<Option<Pid>>>,
}

impl Worker {
    /// Starts a program without arguments in a process group of its own. The kernel kills it when the agent dies, as far as the
    /// program stays root (PR_SET_PDEATHSIG(2const)); its standard input closes then in any case.
    ///
    /// # Errors
    /// When the program or a thread cannot be started.
    pub fn start(program: &Path, listener: impl Listener) -> Result<Self, CommandError> {
        let failed =
            |source| CommandError::Start { program: program.display().to_string(), source };
        let (told, started) = mpsc::channel();
        let path = program.to_owned();
        // The signal of PR_SET_PDEATHSIG is sent when the thread that started the program ends.
        let follow = move || match spawn(&path) {
            Ok((worker, started)) => {
                if told.send(Ok(worker)).is_ok() {
                    follow(started, listener);
                }
            }
            // The receiver waits for it.
            Err(error) => drop(told.send(Err(error))),
        };
        thread::Builder::new().name("worker".into()).spawn(follow).map_err(failed)?;
        let gone = |_| io::Error::other("the thread that starts it panicked");
        started.recv().map_err(|error| failed(gone(error)))?.map_err(failed)
    }

    /// Writes a line to the program's standard input.
    ///
    /// # Errors
    /// When the program does not read any more.
    pub fn say(&self, line: &str) -> io::Result<()> {
        self.input.lock().write_all(format!("{line}\n").as_bytes())
    }

    /// Kills the process group.
    pub fn kill(&self) {
        if let Some(group) = *self.group.lock() {
            // ESRCH: it has just ended.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }

    /// Returns what its processes wait for, and where in the kernel each stands.
    #[must_use]
    pub fn standing(&self) -> String {
        let group = *self.group.lock();
        group.map_or_else(String::new, hung::group)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "cmd ends what it starts within a deadline, and has no pipes"
)]
fn spawn(program: &Path) -> io::Result<(Worker, Started)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let (output, printed) = io::pipe()?;
    let mut command = Command::new(program);
    let mut child = child::kill_with_parent(&mut command)
        .env_clear()
        .env("PATH", path)
        .env("LC_ALL", "C")
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(printed.try_clone()?)
        .stderr(printed)
        .spawn()?;
    let input = child.stdin.take().ok_or_else(|| io::Error::other("no standard input"))?;
    let group = Arc::new(Mutex::new(Some(Pid::from_raw(child.id().cast_signed()))));
    let worker = Worker { input: Mutex::new(input), group: Arc::clone(&group) };
    Ok((worker, Started { child, output, group }))
}

/// Reads all lines, and waits for the program.
fn follow(started: Started, mut listener: impl Listener) {
    let Started { mut child, output, group } = started;
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while let Ok(1..) = (&mut output).take(LONGEST_LINE).read_until(b'\n', &mut line) {
        listener.line(String::from_utf8_lossy(&line).trim_end_matches('\n'));
        line.clear();
    }
    // It stays a zombie, and its number taken, until no other thread may kill its group.
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

    struct Told(mpsc::Sender<Result<String, Option<ExitStatus>>>);

    impl Listener for Told {
        fn line(&mut self, line: &str) {
            self.0.send(Ok(line.to_owned())).unwrap();
        }

        fn ended(self, status: Option<ExitStatus>) {
            self.0.send(Err(status)).unwrap();
        }
    }

    #[test]
    fn lines_go_in_and_come_out_until_the_input_closes() {
        let (told, heard) = mpsc::channel();
        let worker = Worker::start(Path::new("cat"), Told(told)).unwrap();
        worker.say("one").unwrap();
        assert_eq!(heard.recv().unwrap(), Ok("one".to_owned()));
        assert!(worker.standing().contains("cat"), "{}", worker.standing());
        drop(worker);
        assert!(heard.recv().unwrap().unwrap_err().unwrap().success());
    }

    #[test]
    fn a_killed_program_is_told_with_its_signal() {
        let (told, heard) = mpsc::channel();
        let worker = Worker::start(Path::new("cat"), Told(told)).unwrap();
        worker.kill();
        let status = heard.recv().unwrap().unwrap_err().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL));
        worker.kill();
        assert_eq!(worker.standing(), "");
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let (told, _heard) = mpsc::channel();
        let error = Worker::start(Path::new("/nowhere/datamover"), Told(told)).unwrap_err();
        assert!(error.is_not_installed(), "{error}");
        assert!(error.to_string().contains("/nowhere/datamover"));
    }
}
