//! Waits until the processes that keep a mount in use have ended, so that the agent can then unmount at once.

use std::{collections::BTreeMap, io, os::fd::OwnedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::{
    io::unix::AsyncFd,
    task::{AbortHandle, JoinSet},
};

/// For each key, a wait for the end of some processes. A key stands for the work that these processes delay.
#[derive(Debug)]
pub struct HolderWatch<K> {
    waits: JoinSet<K>,
    by_key: BTreeMap<K, AbortHandle>,
}

impl<K> Default for HolderWatch<K> {
    fn default() -> Self {
        Self { waits: JoinSet::new(), by_key: BTreeMap::new() }
    }
}

impl<K: Ord + Clone + Send + 'static> HolderWatch<K> {
    /// Makes the key wait for the end of these processes, and no longer for the processes of an earlier call.
    pub fn set(&mut self, key: &K, processes: Vec<i32>) {
        if let Some(before) = self.by_key.remove(key) {
            before.abort();
        }
        if processes.is_empty() {
            return;
        }
        let name = key.clone();
        let wait = self.waits.spawn(async move {
            for process in processes {
                wait_for_end(process).await;
            }
            name
        });
        self.by_key.insert(key.clone(), wait);
    }

    /// Waits until all processes of some key have ended, and returns the key.
    pub async fn next_free(&mut self) -> K {
        loop {
            match self.waits.join_next().await {
                Some(Ok(key)) => {
                    self.by_key.remove(&key);
                    return key;
                }
                // A later call of [`Self::set`] for this key has cancelled this wait.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}

/// Waits for the end of a process (pidfd_open(2)). Never returns if the kernel refuses to watch the process: in that
/// case the agent retries when its usual delay has passed.
async fn wait_for_end(process: i32) {
    match open(process) {
        Ok(Some(pidfd)) => drop(pidfd.readable().await),
        Ok(None) => {}
        Err(error) => {
            log::debug!("the end of process {process} cannot be waited for: {error}");
            std::future::pending::<()>().await;
        }
    }
}

/// Opens a descriptor of the process; `None` if it has ended.
fn open(process: i32) -> io::Result<Option<AsyncFd<OwnedFd>>> {
    let pid = Pid::from_raw(process).ok_or(io::ErrorKind::InvalidInput)?;
    match pidfd_open(pid, PidfdFlags::empty()) {
        #[expect(
            deprecated,
            reason = "its successor is unsafe for types that may change their descriptor, which an OwnedFd does not"
        )]
        Ok(pidfd) => AsyncFd::new(pidfd).map(Some),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a process to wait for")]
    fn process() -> Child {
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
    }

    fn id(child: &Child) -> i32 {
        child.id().try_into().unwrap()
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn a_key_is_returned_once_its_last_process_has_ended() {
        let (first, second) = (process(), process());
        let mut holders = HolderWatch::default();
        holders.set(&"mount", vec![id(&first), id(&second)]);
        end(first);
        tokio::select! {
            biased;
            _ = holders.next_free() => panic!("a process still runs"),
            () = tokio::task::yield_now() => {}
        }
        end(second);
        assert_eq!(holders.next_free().await, "mount");
    }

    #[tokio::test]
    async fn the_processes_of_a_later_call_replace_those_of_an_earlier_call() {
        let (first, second) = (process(), process());
        let (gone, mut holders) = (id(&first), HolderWatch::default());
        holders.set(&"mount", vec![id(&second)]);
        end(first);
        holders.set(&"mount", vec![gone]);
        assert_eq!(holders.next_free().await, "mount", "the process has ended already");
        holders.set(&"mount", Vec::new());
        end(second);
        tokio::select! {
            biased;
            _ = holders.next_free() => panic!("no process is left to wait for"),
            () = tokio::task::yield_now() => {}
        }
    }
}
