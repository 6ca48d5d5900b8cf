use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

/// What the shell in the guest has said so far.
#[derive(Debug, Default)]
struct Said {
    /// It came up.
    up: bool,
    /// Exit codes by number of the script.
    codes: BTreeMap<u32, i32>,
    /// The emulator is gone.
    closed: bool,
}

/// The line to the shell in a guest.
#[derive(Debug)]
pub(super) struct Port {
    stream: UnixStream,
    said: Arc<(Mutex<Said>, Condvar)>,
}

impl Port {
    pub(super) fn new(stream: UnixStream) -> anyhow::Result<Self> {
        let said = Arc::new((Mutex::default(), Condvar::new()));
        let lines = BufReader::new(stream.try_clone().context("share the shell's socket")?);
        let heard = Arc::clone(&said);
        thread::spawn(move || listen(lines, &heard));
        Ok(Self { stream, said })
    }

    pub(super) fn ask(&mut self, number: u32) -> anyhow::Result<()> {
        writeln!(self.stream, "{number}").context("ask the shell in the guest")
    }

    pub(super) fn wait_for_boot(&self, deadline: Duration) -> anyhow::Result<()> {
        self.wait("the guest to boot", deadline, |said| said.up.then_some(()))
    }

    pub(super) fn wait_for_code(&self, number: u32, deadline: Duration) -> anyhow::Result<i32> {
        self.wait("a script in the guest", deadline, |said| said.codes.get(&number).copied())
    }

    /// The exit code of a script, if it has ended.
    pub(super) fn code(&self, number: u32) -> Option<i32> {
        self.said().codes.get(&number).copied()
    }

    fn wait<T>(
        &self,
        what: &str,
        deadline: Duration,
        found: impl Fn(&Said) -> Option<T>,
    ) -> anyhow::Result<T> {
        let end = Instant::now() + deadline;
        let mut said = self.said();
        loop {
            if let Some(value) = found(&said) {
                return Ok(value);
            }
            if said.closed {
                bail!("the emulator ended while waiting for {what}");
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("waited {deadline:?} for {what}");
            }
            said = self.said.1.wait_timeout(said, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn listen(lines: impl BufRead, said: &(Mutex<Said>, Condvar)) {
    for line in lines.lines().map_while(Result::ok) {
        note(&line, &mut said.0.lock().unwrap_or_else(PoisonError::into_inner));
        said.1.notify_all();
    }
    said.0.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
    said.1.notify_all();
}

fn note(line: &str, said: &mut Said) {
    if line == "up" {
        said.up = true;
    } else if let Some((number, code)) = line.split_once(' ')
        && let (Ok(number), Ok(code)) = (number.parse(), code.parse())
    {
        said.codes.insert(number, code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_and_codes_are_told_apart() {
        let mut said = Said::default();
        for line in ["3 0", "up", "4 17", "noise", "5 x"] {
            note(line, &mut said);
        }
        assert!(said.up);
        assert_eq!(said.codes, BTreeMap::from([(3, 0), (4, 17)]));
    }

    #[test]
    fn an_emulator_that_ends_is_waited_for_no_longer() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let port = Port::new(ours).unwrap();
        drop(theirs);
        let error = port.wait_for_boot(Duration::from_secs(60)).unwrap_err();
        assert!(error.to_string().contains("ended"), "{error}");
    }
}
