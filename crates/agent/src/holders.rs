//! Waits for the end of processes that keep a mount in use, so that the agent can unmount at once.

use std::{collections::BTreeMap, io, os::fd::OwnedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::{
    io::unix::AsyncFd,
    task::{AbortHandle, JoinSet},
};

/// The processes that each key waits for.
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
    /// Waits for these processes from now on, and no longer for those that were set before for this key.
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

    /// Returns the next key all of whose processes have ended; waits until there is one.
    pub async fn next_free(&mut self) -> K {
        loop {
            match self.waits.join_next().await {
                Some(Ok(key)) => {
                    self.by_key.remove(&key);
                    return key;
                }
                // [`Self::set`] replaced this wait.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}

/// Waits for the end of a process (pidfd_open(2)). Never returns for a process
/// that cannot be waited for: the agent retries anyway.
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
    async fn new_processes_replace_the_former_ones() {
        let (first, second) = (process(), process());
        let (gone, mut holders) = (id(&first), HolderWatch::default());
        holders.set(&"mount", vec![id(&second)]);
        end(first);
        holders.set(&"mount", vec![gone]);
        assert_eq!(holders.next_free().await, "mount", "it has ended already");
        holders.set(&"mount", Vec::new());
        end(second);
        tokio::select! {
            biased;
            _ = holders.next_free() => panic!("no process is left to wait for"),
            () = tokio::task::yield_now() => {}
        }
    }
}
