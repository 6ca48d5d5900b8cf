//! Runs calls that may hang in the kernel, each on its own thread and with a deadline: a hanging call then
//! blocks no other call.

use std::{
    cell::RefCell,
    collections::HashMap,
    io, panic,
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::unistd::{Pid, gettid};
use parking_lot::Mutex;

use crate::hung;

/// Runs calls with a deadline, and remembers the calls that did not return.
#[derive(Debug)]
pub struct BoundedCalls {
    what: &'static str,
    deadline: Duration,
    /// Whether the error of a timeout also lists DLM locks that were not granted; false for calls that
    /// themselves read those locks.
    lists_locks: bool,
    /// The thread of the last call that returned in time, kept so that the next call need not start a thread.
    idle: Mutex<Option<Worker>>,
    stuck: Mutex<HashMap<String, Vec<Stuck>>>,
}

type Call = Box<dyn FnOnce() + Send>;

/// A thread that makes one call after another, until the channel's sending end is dropped.
#[derive(Debug)]
struct Worker {
    calls: SyncSender<Call>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn start(name: &str) -> io::Result<Self> {
        let (calls, received) = sync_channel::<Call>(1);
        let run = move || received.into_iter().for_each(|call| call());
        let thread = thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Self { calls, thread })
    }
}

static IN_STEPS: LazyLock<BoundedCalls> = LazyLock::new(|| BoundedCalls::new(Duration::ZERO));

/// Runs a call in the middle of a step, with this deadline for the call.
///
/// # Errors
/// The errors of [`BoundedCalls::run`].
pub fn within<T: Send + 'static>(
    deadline: Duration,
    name: &str,
    look: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    IN_STEPS.run_longer(deadline, name, look)
}

thread_local! {
    /// In the thread of a call: whether the caller has stopped waiting for the call.
    static GIVEN_UP: RefCell<Arc<AtomicBool>> = RefCell::default();
}

/// Returns whether the caller has stopped waiting for this thread. The thread must then begin no further change.
pub fn is_given_up() -> bool {
    GIVEN_UP.with_borrow(|flag| flag.load(Ordering::SeqCst))
}

/// Runs work that must not be left half done: within `work`, [`is_given_up`] returns false, so that the work continues
/// even after the caller has stopped waiting.
pub fn to_the_end<T>(work: impl FnOnce() -> T) -> T {
    let given_up = GIVEN_UP.take();
    let result = work();
    GIVEN_UP.set(given_up);
    result
}

/// Marks this thread as given up: its caller has stopped waiting.
#[cfg(any(test, feature = "testing"))]
pub fn give_up() {
    GIVEN_UP.with_borrow(|flag| flag.store(true, Ordering::SeqCst));
}

#[derive(Debug)]
struct Stuck {
    thread: JoinHandle<()>,
    given_up: GivenUp,
}

/// A thread whose caller has stopped waiting, and the deadline that passed.
#[derive(Debug, Clone, Copy)]
struct GivenUp {
    id: Option<Pid>,
    deadline: Duration,
}

impl BoundedCalls {
    /// Returns a runner of observations, each with this deadline.
    pub fn new(deadline: Duration) -> Self {
        let (idle, stuck) = (Mutex::default(), Mutex::default());
        Self { what: "observation", deadline, lists_locks: true, idle, stuck }
    }

    /// Returns a runner of reads of the lock manager's tables, each with this deadline. The error of a timeout does not
    /// read those tables again.
    pub fn at_locks(deadline: Duration) -> Self {
        Self { lists_locks: false, ..Self::new(deadline) }
    }

    /// Returns a runner of calls that change a drive, each with this deadline.
    pub fn of_changes(deadline: Duration) -> Self {
        Self { what: "change", ..Self::new(deadline) }
    }

    /// Runs a call under `name`, which identifies the object on which it may hang, for example a drive.
    ///
    /// # Errors
    /// `TimedOut` when the call does not return in time, or when an earlier call under the same name has not
    /// returned yet. In the latter case the new call is not begun, so that a hanging device costs one thread in all,
    /// not one thread per retry.
    pub fn run<T: Send + 'static>(
        &self,
        name: &str,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        self.run_longer(Duration::ZERO, name, look)
    }

    /// Runs a call like [`Self::run`], with `more` added to the deadline.
    pub fn run_longer<T: Send + 'static>(
        &self,
        more: Duration,
        name: &str,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let deadline = self.deadline.saturating_add(more);
        self.unended(name).map_or(Ok(()), Err)?;
        let (sender, answer) = sync_channel(1);
        let id = Arc::new(OnceLock::new());
        let id_of_thread = Arc::clone(&id);
        let given_up = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&given_up);
        let idle = self.idle.lock().take();
        let Worker { calls, thread } = idle.map_or_else(|| Worker::start(self.what), Ok)?;
        let call = move || {
            GIVEN_UP.set(flag);
            // Cannot fail: only this thread sets the id.
            let _ = id_of_thread.set(gettid());
            // After the deadline the receiver no longer exists, so the result is dropped.
            let _ = sender.send(look());
        };
        let ended = |_| io::Error::other("the thread of the call ended");
        calls.send(Box::new(call)).map_err(ended)?;
        match answer.recv_timeout(deadline) {
            Ok(result) => {
                *self.idle.lock() = Some(Worker { calls, thread });
                Ok(result)
            }
            // The abandoned thread ends when its call returns.
            Err(RecvTimeoutError::Timeout) => {
                given_up.store(true, Ordering::SeqCst);
                let given_up = GivenUp { id: id.get().copied(), deadline };
                let stuck = Stuck { thread, given_up };
                self.stuck.lock().entry(name.to_owned()).or_default().push(stuck);
                Err(self.error(given_up))
            }
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panicked) => panic::resume_unwind(panicked),
                Ok(()) => Err(io::Error::other("the call ended without an answer")),
            },
        }
    }

    /// Returns the error to report while an earlier call under `name` has not returned; `None` when all
    /// such calls have returned.
    pub fn unended(&self, name: &str) -> Option<io::Error> {
        let mut stuck = self.stuck.lock();
        stuck.retain(|_, under| {
            under.retain(|call| !call.thread.is_finished());
            !under.is_empty()
        });
        let first = stuck.get(name).and_then(|under| under.first()).map(|call| call.given_up);
        // Release this lock first: reading the lock manager's tables may take long, and other calls must not wait for
        // it.
        drop(stuck);
        first.map(|call| self.error(call))
    }

    fn error(&self, GivenUp { id, deadline }: GivenUp) -> io::Error {
        let thread = id.map_or_else(String::new, |id| format!(" ({})", hung::thread(id)));
        let (what, seconds) = (self.what, deadline.as_secs_f32());
        let mut texts = vec![format!("the {what} did not end within {seconds} s{thread}")];
        if self.lists_locks {
            texts.extend(hung::locks());
        }
        io::Error::new(io::ErrorKind::TimedOut, texts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn run_returns_the_result_of_the_call() {
        let calls = BoundedCalls::new(Duration::from_secs(60));
        assert_eq!(calls.run("a", || 7).unwrap(), 7);
    }

    #[test]
    #[should_panic = "on purpose"]
    fn a_panic_in_a_call_continues_in_the_caller() {
        let _ = BoundedCalls::new(Duration::from_secs(60)).run("a", || panic!("on purpose"));
    }

    #[test]
    fn a_hanging_call_times_out_and_is_not_begun_again() {
        let calls = BoundedCalls::new(Duration::from_secs(1));
        let (release, held) = channel::<()>();
        let (ended, end) = channel();
        let hang = move || {
            let _ = held.recv();
            let _ = ended.send(());
        };
        let error = calls.run("vg-0", hang).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("did not end within 1 s (thread "), "{error}");
        let again = calls
            .run("vg-0", || unreachable!("the earlier call under this name still hangs"))
            .unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::TimedOut);
        assert_eq!(calls.run("vg-1", || 7).unwrap(), 7, "a call under another name is not blocked");

        drop(release);
        end.recv().unwrap();
        for stuck in calls.stuck.lock().remove("vg-0").unwrap() {
            stuck.thread.join().unwrap();
        }
        assert_eq!(calls.run("vg-0", || 7).unwrap(), 7);
    }

    #[test]
    fn run_longer_extends_the_deadline() {
        let changes = BoundedCalls::of_changes(Duration::from_millis(20));
        let (release, held) = channel::<()>();
        let hang = move || held.recv().is_ok();
        let error = changes.run_longer(Duration::from_millis(30), "drive", hang).unwrap_err();
        assert!(error.to_string().contains("within 0.05 s (thread "), "{error}");
        drop(release);
    }

    #[test]
    fn to_the_end_hides_from_its_work_that_the_caller_stopped_waiting() {
        give_up();
        assert!(!to_the_end(is_given_up) && is_given_up());
    }

    #[test]
    fn within_times_out_at_the_deadline_that_it_was_given() {
        let (release, held) = channel::<()>();
        let hang = move || held.recv().is_ok();
        let error = within(Duration::from_millis(50), "a step", hang).unwrap_err();
        assert!(error.to_string().contains("within 0.05 s (thread "), "{error}");
        drop(release);
    }

    #[test]
    fn a_hanging_read_of_locks_does_not_read_locks_for_its_error() {
        let calls = BoundedCalls::at_locks(Duration::from_millis(50));
        let (release, held) = channel::<()>();
        let hang = move || held.recv().is_ok();
        let error = calls.run("locks", hang).unwrap_err().to_string();
        assert!(error.contains("(thread ") && !error.contains("DLM"), "{error}");
        drop(release);
    }

    #[test]
    fn two_hanging_calls_are_both_remembered_and_both_see_that_their_callers_stopped_waiting() {
        let changes = BoundedCalls::of_changes(Duration::from_millis(50));
        let (first, held_first) = channel::<()>();
        let (second, held_second) = channel::<()>();
        let (sender, given_up) = channel();
        let hang = |held: std::sync::mpsc::Receiver<()>| {
            let sender = sender.clone();
            move || {
                assert!(!is_given_up());
                let _ = held.recv();
                let _ = sender.send(is_given_up());
            }
        };
        thread::scope(|scope| {
            // Both calls begin before the caller of either stops waiting.
            let both = [hang(held_first), hang(held_second)].map(|lock| {
                let changes = &changes;
                scope.spawn(move || changes.run("drive", lock).unwrap_err())
            });
            for thread in both {
                let error = thread.join().unwrap().to_string();
                assert!(error.starts_with("the change did not end within"), "{error}");
            }
        });
        assert_eq!(changes.stuck.lock()["drive"].len(), 2);
        drop(first);
        assert!(given_up.recv().unwrap(), "the call sees that its caller has stopped waiting");
        assert!(changes.unended("drive").is_some(), "the other call still runs");
        drop(second);
        assert!(given_up.recv().unwrap(), "the call sees that its caller has stopped waiting");
        for stuck in changes.stuck.lock().remove("drive").unwrap_or_default() {
            stuck.thread.join().unwrap();
        }
        assert!(changes.unended("drive").is_none());
    }
}
