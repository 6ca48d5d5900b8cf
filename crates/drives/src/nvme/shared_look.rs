//! Shares the result of one observation among all callers that wait for an observation.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// A slow observation that many callers want at the same time. One observation serves all callers that called before
/// the observation began, because it sees every change that these callers made before their calls. A caller that calls
/// while an observation runs waits for the next observation.
#[derive(Debug)]
pub(super) struct SharedLook<T> {
    begun: AtomicU64,
    waiting: AtomicUsize,
    /// The result of the last observation, with the observation's number; kept while callers wait.
    /// Locked during an observation.
    last: Mutex<Option<(u64, T)>>,
}

impl<T> Default for SharedLook<T> {
    fn default() -> Self {
        Self { begun: AtomicU64::new(0), waiting: AtomicUsize::new(0), last: Mutex::new(None) }
    }
}

impl<T: Clone> SharedLook<T> {
    /// Returns the result of an observation that begins after this call. Either this caller's `look` makes the
    /// observation, or the `look` of another caller does.
    ///
    /// # Errors
    /// The errors of `look`. A failure is returned only to the caller whose `look` failed; the
    /// other callers observe themselves.
    pub(super) fn take<E>(&self, look: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let wanted = self.begun.load(Ordering::SeqCst) + 1;
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut last = self.last.lock();
        let is_last = self.waiting.fetch_sub(1, Ordering::SeqCst) == 1;
        let known = last.as_ref().filter(|(number, _)| *number >= wanted);
        if let Some((_, known)) = known.cloned() {
            last.take_if(|_| is_last);
            return Ok(known);
        }
        *last = None;
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let looked = look()?;
        *last = (self.waiting.load(Ordering::SeqCst) > 0).then(|| (number, looked.clone()));
        Ok(looked)
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

    /// Observes a number that changes, and counts the observations.
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

    /// Runs an observation that ends as `end` determines, while `count` other callers wait for an observation; returns
    /// the results of these callers.
    fn meanwhile(bench: &Arc<Bench>, end: fn(u32) -> io::Result<u32>, count: usize) -> Vec<u32> {
        let (begins, begun) = channel();
        let (release, held) = channel::<()>();
        let looking = Arc::clone(bench);
        let running = thread::spawn(move || {
            let look = || {
                let truth = looking.look()?;
                begins.send(()).unwrap();
                held.recv().unwrap();
                end(truth)
            };
            catch_unwind(AssertUnwindSafe(|| looking.shared.take(look)))
        });
        begun.recv().unwrap();
        bench.truth.store(2, Ordering::SeqCst);
        let waiting_callers: Vec<JoinHandle<u32>> = (0..count)
            .map(|_| {
                let bench = Arc::clone(bench);
                thread::spawn(move || bench.shared.take(|| bench.look()).unwrap())
            })
            .collect();
        while bench.shared.waiting.load(Ordering::SeqCst) < count {
            thread::yield_now();
        }
        release.send(()).unwrap();
        let _ = running.join().unwrap();
        waiting_callers.into_iter().map(|thread| thread.join().unwrap()).collect()
    }

    #[test]
    fn callers_that_call_while_an_observation_runs_share_the_next_observation() {
        let bench = Arc::new(Bench { truth: 1.into(), ..Bench::default() });
        assert_eq!(meanwhile(&bench, Ok, 8), [2; 8]);
        assert_eq!(bench.calls.load(Ordering::SeqCst), 2);
        assert_eq!(*bench.shared.last.lock(), None, "a result without waiting callers is dropped");
    }

    #[test]
    fn a_failed_or_panicked_observation_does_not_reach_other_callers() {
        let ends: [fn(u32) -> io::Result<u32>; 2] =
            [|_| Err(io::Error::other("on purpose")), |_| panic!("on purpose")];
        for end in ends {
            let bench = Arc::new(Bench::default());
            assert_eq!(meanwhile(&bench, end, 3), [2; 3]);
            assert_eq!(bench.calls.load(Ordering::SeqCst), 2);
        }
    }

    #[test]
    fn calls_one_after_another_each_get_a_new_observation() {
        let bench = Bench::default();
        for truth in 1..4 {
            bench.truth.store(truth, Ordering::SeqCst);
            assert_eq!(bench.shared.take(|| bench.look()).unwrap(), truth);
        }
    }
}
