//! One observation, shared by all callers that wait for one.

use std::sync::{Condvar, Mutex, PoisonError};

use super::lock;

/// A slow observation that many want at once. It serves all callers that asked before it began, because it sees
/// whatever they did before. A caller that asks while it runs waits for the next.
#[derive(Debug)]
pub(super) struct SharedLook<T> {
    state: Mutex<State<T>>,
    ended: Condvar,
}

#[derive(Debug)]
struct State<T> {
    /// Number of observations begun so far.
    begun: u64,
    is_running: bool,
    /// How many callers wait for one to end.
    waiting: usize,
    /// The result of the last successful one, with its number; kept while callers wait.
    seen: Option<(u64, T)>,
}

impl<T> Default for SharedLook<T> {
    fn default() -> Self {
        let state = State { begun: 0, is_running: false, waiting: 0, seen: None };
        Self { state: Mutex::new(state), ended: Condvar::new() }
    }
}

impl<T: Clone> SharedLook<T> {
    /// The result of an observation that begins after this call did: by `look`, or by another caller.
    ///
    /// # Errors
    /// Those of `look`. A failure concerns its own caller only: the others observe themselves.
    pub(super) fn take<E>(&self, look: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let mut state = lock(&self.state);
        let wanted = state.begun + 1;
        while state.is_running {
            state.waiting += 1;
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
            if let Some(seen) = state.seen_since(wanted) {
                return Ok(seen);
            }
        }
        state.is_running = true;
        state.begun += 1;
        let number = state.begun;
        drop(state);
        let running = Running(self);
        let seen = look()?;
        lock(&self.state).keep(number, &seen);
        drop(running);
        Ok(seen)
    }
}

impl<T: Clone> State<T> {
    fn keep(&mut self, number: u64, seen: &T) {
        self.seen = (self.waiting > 0).then(|| (number, seen.clone()));
    }

    /// The result of the observation with that number or a later one; dropped after the last waiting caller.
    fn seen_since(&mut self, wanted: u64) -> Option<T> {
        let (_, seen) = self.seen.as_ref().filter(|(number, _)| *number >= wanted)?;
        let seen = seen.clone();
        if self.waiting == 0 {
            self.seen = None;
        }
        Some(seen)
    }
}

/// Ends an observation in any case, also after a panic.
struct Running<'a, T>(&'a SharedLook<T>);

impl<T> Drop for Running<'_, T> {
    fn drop(&mut self) {
        lock(&self.0.state).is_running = false;
        self.0.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        panic::{AssertUnwindSafe, catch_unwind},
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
            mpsc::channel,
        },
        thread::{self, JoinHandle},
    };

    use super::*;

    /// Returns a number that changes, and counts how often it was read.
    #[derive(Default)]
    struct Bench {
        shared: SharedLook<u32>,
        truth: AtomicU32,
        calls: AtomicU32,
    }

    impl Bench {
        fn look(&self) -> io::Result<u32> {
            self.calls.fetch_add(1, Ordering::SeqCst);
            Ok(self.truth.load(Ordering::SeqCst))
        }
    }

    /// Runs a look that ends as `end` says, and has `count` others ask while it runs; what they saw.
    fn meanwhile(bench: &Arc<Bench>, end: fn(u32) -> io::Result<u32>, count: usize) -> Vec<u32> {
        let (begins, begun) = channel();
        let (release, held) = channel::<()>();
        let looking = Arc::clone(bench);
        let running = thread::spawn(move || {
            let look = || {
                let seen = looking.look()?;
                begins.send(()).unwrap();
                held.recv().unwrap();
                end(seen)
            };
            catch_unwind(AssertUnwindSafe(|| looking.shared.take(look)))
        });
        begun.recv().unwrap();
        bench.truth.store(2, Ordering::SeqCst);
        let asking: Vec<JoinHandle<u32>> = (0..count)
            .map(|_| {
                let bench = Arc::clone(bench);
                thread::spawn(move || bench.shared.take(|| bench.look()).unwrap())
            })
            .collect();
        while lock(&bench.shared.state).waiting < count {
            thread::yield_now();
        }
        release.send(()).unwrap();
        let _ = running.join().unwrap();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    }

    #[test]
    fn those_who_ask_while_a_look_runs_share_the_next() {
        let bench = Arc::new(Bench { truth: 1.into(), ..Bench::default() });
        assert_eq!(meanwhile(&bench, Ok, 8), [2; 8]);
        assert_eq!(bench.calls.load(Ordering::SeqCst), 2);
        assert_eq!(lock(&bench.shared.state).seen, None, "nobody waits for it any more");
    }

    #[test]
    fn a_look_that_fails_or_panics_is_nobody_elses() {
        let ends: [fn(u32) -> io::Result<u32>; 2] =
            [|_| Err(io::Error::other("on purpose")), |_| panic!("on purpose")];
        for end in ends {
            let bench = Arc::new(Bench::default());
            assert_eq!(meanwhile(&bench, end, 3), [2; 3]);
            assert_eq!(bench.calls.load(Ordering::SeqCst), 2);
        }
    }

    #[test]
    fn who_asks_later_is_not_told_what_was_seen_before() {
        let bench = Bench::default();
        for truth in 1..4 {
            bench.truth.store(truth, Ordering::SeqCst);
            assert_eq!(bench.shared.take(|| bench.look()).unwrap(), truth);
        }
    }
}
