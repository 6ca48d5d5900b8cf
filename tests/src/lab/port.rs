use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

/// State of the shell in the guest, according to the lines that the shell has sent.
#[derive(Debug, Default)]
struct State {
    /// Whether the shell has started.
    up: bool,
    /// Exit codes of ended scripts, by the number of the script.
    codes: BTreeMap<u32, i32>,
    /// Whether the emulator has closed the connection.
    closed: bool,
}

/// The connection to the shell in a guest.
#[derive(Debug)]
pub(super) struct Port {
    stream: UnixStream,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Port {
    pub(super) fn new(stream: UnixStream) -> anyhow::Result<Self> {
        let state = Arc::new((Mutex::default(), Condvar::new()));
        let lines = BufReader::new(stream.try_clone().context("share the shell's socket")?);
        let shared = Arc::clone(&state);
        thread::spawn(move || listen(lines, &shared));
        Ok(Self { stream, state })
    }

    pub(super) fn request(&mut self, number: u32) -> anyhow::Result<()> {
        writeln!(self.stream, "{number}")
            .context("send a script's number to the shell in the guest")
    }

    pub(super) fn wait_for_boot(&self, deadline: Duration) -> anyhow::Result<()> {
        self.wait("the guest to boot", deadline, |state| state.up.then_some(()))
    }

    pub(super) fn wait_for_code(&self, number: u32, deadline: Duration) -> anyhow::Result<i32> {
        self.wait("a script in the guest", deadline, |state| state.codes.get(&number).copied())
    }

    /// Returns the exit code of a script, if it has ended.
    pub(super) fn code(&self, number: u32) -> Option<i32> {
        self.lock().codes.get(&number).copied()
    }

    fn wait<T>(
        &self,
        what: &str,
        deadline: Duration,
        found: impl Fn(&State) -> Option<T>,
    ) -> anyhow::Result<T> {
        let end = Instant::now() + deadline;
        let mut state = self.lock();
        loop {
            if let Some(value) = found(&state) {
                return Ok(value);
            }
            if state.closed {
                bail!("the emulator ended while waiting for {what}");
            }
            let remaining = end.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                bail!("waited {deadline:?} for {what}");
            }
            state = self
                .state
                .1
                .wait_timeout(state, remaining)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn listen(lines: impl BufRead, state: &(Mutex<State>, Condvar)) {
    for line in lines.lines().map_while(Result::ok) {
        record(&line, &mut state.0.lock().unwrap_or_else(PoisonError::into_inner));
        state.1.notify_all();
    }
    state.0.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
    state.1.notify_all();
}

fn record(line: &str, state: &mut State) {
    if line == "up" {
        state.up = true;
    } else if let Some((number, code)) = line.split_once(' ')
        && let (Ok(number), Ok(code)) = (number.parse(), code.parse())
    {
        state.codes.insert(number, code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_and_exit_codes_are_recorded() {
        let mut state = State::default();
        for line in ["3 0", "up", "4 17", "noise", "5 x"] {
            record(line, &mut state);
        }
        assert!(state.up);
        assert_eq!(state.codes, BTreeMap::from([(3, 0), (4, 17)]));
    }

    #[test]
    fn a_wait_for_the_boot_fails_when_the_emulator_ends() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let port = Port::new(ours).unwrap();
        drop(theirs);
        let error = port.wait_for_boot(Duration::from_secs(60)).unwrap_err();
        assert!(error.to_string().contains("ended"), "{error}");
    }
}
