//! Looks at a node, each on a thread of its own: one that hangs in the kernel keeps nobody else waiting.

use std::{
    collections::HashMap,
    fs, io, panic,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        mpsc::{RecvTimeoutError, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::unistd::{Pid, gettid};

use super::hung::frames;

/// Takes looks, and knows which of them never came back.
#[derive(Debug)]
pub(super) struct Looks {
    deadline: Duration,
    stuck: Mutex<HashMap<String, Stuck>>,
}

#[derive(Debug)]
struct Stuck {
    thread: JoinHandle<()>,
    id: Option<Pid>,
}

impl Looks {
    /// Looks that may take `deadline` each.
    pub(super) fn new(deadline: Duration) -> Self {
        Self { deadline, stuck: Mutex::default() }
    }

    /// Takes a look at what goes under `name`.
    ///
    /// # Errors
    /// `TimedOut` when it does not end in time, or one under that name has not ended yet: then no other is begun, so that
    /// a device that hangs costs one thread and not one for every try.
    pub(super) fn take<T: Send + 'static>(
        &self,
        name: &str,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        self.refuse_while_stuck(name)?;
        let (tell, answer) = sync_channel(1);
        let id = Arc::new(OnceLock::new());
        let named = Arc::clone(&id);
        let thread = thread::Builder::new().name("look".into()).spawn(move || {
            // The first to set it, and the last too.
            let _ = named.set(gettid());
            // Nobody listens after the deadline.
            let _ = tell.send(look());
        })?;
        match answer.recv_timeout(self.deadline) {
            Ok(seen) => Ok(seen),
            Err(RecvTimeoutError::Timeout) => {
                let stuck = Stuck { thread, id: id.get().copied() };
                let error = stuck.error(self.deadline);
                self.lock().insert(name.to_owned(), stuck);
                Err(error)
            }
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panicked) => panic::resume_unwind(panicked),
                Ok(()) => Err(io::Error::other("the look ended without an answer")),
            },
        }
    }

    fn refuse_while_stuck(&self, name: &str) -> io::Result<()> {
        let mut stuck = self.lock();
        stuck.retain(|_, look| !look.thread.is_finished());
        stuck.get(name).map_or(Ok(()), |look| Err(look.error(self.deadline)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Stuck>> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stuck {
    fn error(&self, deadline: Duration) -> io::Error {
        let place = self.id.map_or_else(String::new, |id| {
            let stack = fs::read_to_string(format!("/proc/self/task/{id}/stack"));
            format!(" (thread {id}{})", frames(&stack.unwrap_or_default()))
        });
        let text = format!("the look did not end within {} s{place}", deadline.as_secs_f32());
        io::Error::new(io::ErrorKind::TimedOut, text)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_was_seen_comes_back() {
        let looks = Looks::new(Duration::from_secs(60));
        assert_eq!(looks.take("a", || 7).unwrap(), 7);
    }

    #[test]
    #[should_panic = "on purpose"]
    fn a_panic_goes_on_in_the_caller() {
        let _ = Looks::new(Duration::from_secs(60)).take("a", || panic!("on purpose"));
    }

    #[test]
    fn a_look_that_hangs_is_told_once_begun_and_not_begun_again() {
        let looks = Looks::new(Duration::from_secs(1));
        let (release, held) = channel::<()>();
        let (ended, end) = channel();
        let hang = move || {
            let _ = held.recv();
            let _ = ended.send(());
        };
        let error = looks.take("vg-0", hang).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("did not end within 1 s (thread "), "{error}");
        let again = looks.take("vg-0", || unreachable!("it is stuck")).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::TimedOut);
        assert_eq!(looks.take("vg-1", || 7).unwrap(), 7, "others go on");

        drop(release);
        end.recv().unwrap();
        looks.lock().remove("vg-0").unwrap().thread.join().unwrap();
        assert_eq!(looks.take("vg-0", || 7).unwrap(), 7);
    }
}
