//! Runs programs, each with a deadline and in a process group of its own, and keeps their output. Apart from
//! [`crate::worker`], no other module starts programs.

use std::{
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::{
        fd::{AsFd, AsRawFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use crate::{child, hung};
use causes::CommandError;

mod left;

pub use left::unended;

/// Bytes kept of stderr: programs print the cause of a failure first or last, and put usage texts in between.
const STDERR_KEPT: Ends = Ends { first: 512, last: 512 };
/// Bytes kept of stdout: LVM's report on a rabbit with the maximum number of namespaces has some hundred KiB.
const STDOUT_KEPT: Ends = Ends { first: 8 << 20, last: 0 };

const NOT_ENDED: &str = "; SIGKILL did not end it: it is stuck in the kernel";

/// Time within which a killed process group must end; after that the agent no longer waits for it.
const DRAIN_DEADLINE: Duration = Duration::from_secs(2);

/// A command that can be run several times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cmd {
    argv: Vec<String>,
    /// The command as messages show it.
    text: String,
    /// The job or allocation that runs the command, if other jobs or allocations may run the
    /// same command; empty otherwise.
    owner: String,
}

impl Cmd {
    /// Builds a command from a program with its arguments, without a shell.
    pub fn new<const N: usize>(argv: [&str; N]) -> Self {
        let (argv, text) = (argv.map(str::to_owned).to_vec(), argv.join(" "));
        Self { argv, text, owner: String::new() }
    }

    /// Builds a command from a program with its arguments; messages show it as `text`.
    pub fn with_text<'a>(argv: impl Iterator<Item = &'a String>, text: String) -> Self {
        Self { argv: argv.cloned().collect(), text, owner: String::new() }
    }

    /// Builds the command `bash -c` for a line that the site configured.
    pub fn shell(line: &str) -> Self {
        Self {
            argv: vec!["bash".to_owned(), "-c".to_owned(), line.to_owned()],
            text: line.to_owned(),
            owner: String::new(),
        }
    }

    /// Sets the owner of the command. While a process of the command survives SIGKILL, the same command fails at once
    /// for this owner; other owners may run it.
    pub fn for_owner(self, owner: &str) -> Self {
        Self { owner: owner.to_owned(), ..self }
    }

    /// Runs the command and drops its stdout.
    ///
    /// Returns when the program itself has ended, even while other processes still hold its pipes: a hook
    /// may start a daemon.
    ///
    /// # Errors
    /// When the command cannot be started, fails, or exceeds `deadline`. After the deadline its whole process
    /// group is killed. While any process of that group lives, the same command of the same owner fails at once
    /// with the same error.
    pub fn run(&self, deadline: Duration) -> Result<(), CommandError> {
        self.stdout(deadline).map(drop)
    }

    /// Runs the command and returns its stdout.
    ///
    /// # Errors
    /// The errors of [`Cmd::run`], and an error when the command prints more bytes than this module keeps: a
    /// truncated answer is useless.
    pub fn output(&self, deadline: Duration) -> Result<Vec<u8>, CommandError> {
        let (command, most) = (self.text.clone(), STDOUT_KEPT.first);
        self.stdout(deadline)?.whole().ok_or(CommandError::TooMuch { command, most })
    }

    fn stdout(&self, deadline: Duration) -> Result<Kept<ChildStdout>, CommandError> {
        if let Some(waits) = left::waits(self) {
            let (command, stderr) = (self.text.clone(), String::new());
            let waits = format!("{waits}{NOT_ENDED}");
            return Err(CommandError::TimedOut { command, deadline, stderr, waits });
        }
        let start = |source| CommandError::Start { program: self.argv[0].clone(), source };
        let mut child = self.spawn().map_err(start)?;
        let group = Pid::from_raw(child.id().cast_signed());
        let mut stdout = Kept::new(child.stdout.take(), STDOUT_KEPT).map_err(start)?;
        let mut stderr = Kept::new(child.stderr.take(), STDERR_KEPT).map_err(start)?;
        let ended = reap(child).map_err(start)?;

        let in_time = wait(&ended, &mut stdout, &mut stderr, deadline);
        let mut waits = String::new();
        if !in_time {
            waits = hung::group(group);
            // ESRCH: the group has just ended.
            let _ = killpg(group, Signal::SIGKILL);
            if !wait(&ended, &mut stdout, &mut stderr, DRAIN_DEADLINE) {
                waits.push_str(NOT_ENDED);
            }
            left::remember(self, group);
        }
        let status = if in_time { read_status(ended) } else { None };
        stdout.read();
        stderr.read();
        match status {
            Some(status) if status.success() => Ok(stdout),
            Some(status) => Err(CommandError::Failed {
                command: self.text.clone(),
                status: status.to_string(),
                stderr: stderr.text(),
            }),
            None => Err(CommandError::TimedOut {
                command: self.text.clone(),
                deadline,
                stderr: stderr.text(),
                waits,
            }),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
    fn spawn(&self) -> io::Result<Child> {
        let path = std::env::var_os("PATH").unwrap_or_else(|| {
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into()
        });
        let mut command = Command::new(&self.argv[0]);
        child::kill_with_parent(&mut command)
            .args(&self.argv[1..])
            .env_clear()
            .env("PATH", path)
            .env("LC_ALL", "C")
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }
}

/// Starts a thread that waits for the child and writes its status to a pipe: a pipe can be polled with a deadline.
fn reap(mut child: Child) -> io::Result<PipeReader> {
    let (ended, mut status) = io::pipe()?;
    thread::Builder::new()
        .name("reap".into())
        .spawn(move || send_status(&mut child, &mut status))?;
    Ok(ended)
}

fn send_status(child: &mut Child, status: &mut PipeWriter) {
    if let Ok(exit) = child.wait() {
        // The reader no longer exists once the deadline has passed.
        let _ = status.write_all(&exit.into_raw().to_ne_bytes());
    }
}

fn read_status(mut ended: PipeReader) -> Option<ExitStatus> {
    let mut raw = [0; 4];
    ended.read_exact(&mut raw).ok()?;
    Some(ExitStatus::from_raw(i32::from_ne_bytes(raw)))
}

/// Reads both pipes until the child has ended; returns `false` when the child did not end in time.
fn wait<O: AsRawFd + Read + AsFd, E: AsRawFd + Read + AsFd>(
    ended: &PipeReader,
    stdout: &mut Kept<O>,
    stderr: &mut Kept<E>,
    deadline: Duration,
) -> bool {
    let until = Instant::now() + deadline;
    loop {
        let remaining = until.saturating_duration_since(Instant::now());
        let mut fds = vec![PollFd::new(ended.as_fd(), PollFlags::POLLIN)];
        fds.extend(stdout.poll());
        fds.extend(stderr.poll());
        let timeout = PollTimeout::try_from(remaining.as_millis() + 1).unwrap_or(PollTimeout::MAX);
        let ready = poll(&mut fds, timeout);
        let has_ended = fds.first().is_some_and(|fd| fd.any() == Some(true));
        drop(fds);
        match ready {
            Ok(_) if has_ended => return true,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
        if Instant::now() >= until {
            return false;
        }
        stdout.read();
        stderr.read();
    }
}

/// The numbers of bytes to keep from the beginning and from the end of a pipe's text.
#[derive(Debug, Clone, Copy)]
struct Ends {
    first: usize,
    last: usize,
}

/// The beginning and the end of a pipe's text. The middle is dropped, so that no command can fill the agent's memory.
struct Kept<P> {
    pipe: Option<P>,
    head: Vec<u8>,
    tail: Vec<u8>,
    dropped: bool,
    most: Ends,
}

impl<P: AsRawFd + AsFd + Read> Kept<P> {
    fn new(pipe: Option<P>, most: Ends) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(Self { pipe, head: Vec::new(), tail: Vec::new(), dropped: false, most })
    }

    fn poll(&self) -> Option<PollFd<'_>> {
        self.pipe.as_ref().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN))
    }

    /// Reads the available bytes, at most 64 buffers, because a grandchild may write for ever.
    fn read(&mut self) {
        let mut buffer = [0; 4096];
        for _ in 0..64 {
            let Some(pipe) = &mut self.pipe else { return };
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => self.keep(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = self.most.first - self.head.len();
        let (head, tail) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.extend_from_slice(tail);
        let surplus = self.tail.len().saturating_sub(self.most.last);
        self.dropped |= surplus > 0;
        self.tail.drain(..surplus);
    }

    /// Returns the whole text, if no part of it was dropped.
    fn whole(self) -> Option<Vec<u8>> {
        (!self.dropped).then(|| [self.head, self.tail].concat())
    }

    fn text(self) -> String {
        let gap = if self.dropped { "\n[…]\n" } else { "" };
        let text = [&*self.head, gap.as_bytes(), &self.tail].concat();
        String::from_utf8_lossy(&text).trim().to_owned()
    }
}

#[cfg(test)]
mod tests;
