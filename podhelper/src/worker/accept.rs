//! Connections before they have proved their keys: so few at a time that nobody without keys takes a worker from its launcher.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::sleep,
};

use super::log;

/// Connections that may be proving their keys. Each launcher has one or two at a time.
pub(super) const MOST: usize = 64;
/// After a connection could not be taken, such as for want of a file descriptor.
const PAUSE: Duration = Duration::from_secs(1);

/// The connections that have not proved their keys, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Pending(VecDeque<Arc<Notify>>);

/// Held by a connection that has not proved its keys.
#[derive(Debug)]
pub(super) struct Unproved(Arc<Notify>);

impl Unproved {
    /// Comes back when this connection has to make room.
    pub(super) async fn displaced(&self) {
        self.0.notified().await;
    }
}

impl Pending {
    /// The next connection.
    pub(super) async fn taken(&mut self, listener: &TcpListener) -> (TcpStream, Unproved) {
        let tcp = patiently(|| listener.accept()).await.0;
        (tcp, self.added())
    }

    /// Makes room for one more: the oldest goes, because a launcher proves its keys in less time than others take to come.
    pub(super) fn added(&mut self) -> Unproved {
        // Nobody but us has those that were proved, or are gone.
        self.0.retain(|one| Arc::strong_count(one) > 1);
        if self.0.len() >= MOST
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.notify_one();
        }
        let new = Arc::new(Notify::new());
        self.0.push_back(new.clone());
        Unproved(new)
    }
}

/// Takes a connection, however often that fails first. A listener that is out of file descriptors would fail again at once.
pub(super) async fn patiently<T, F>(mut accept: impl FnMut() -> F) -> T
where
    F: Future<Output = io::Result<T>>,
{
    loop {
        match accept().await {
            Ok(taken) => return taken,
            // It went before it was taken.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                log(&format!("no connection is taken: {error}; trying again"));
                sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_oldest_without_keys_makes_room() {
        let mut pending = Pending::default();
        let mut all: VecDeque<Unproved> = (0..MOST).map(|_| pending.added()).collect();
        assert!(all.iter().all(|one| one.displaced().now_or_never().is_none()), "all have room");
        drop(all.pop_back());
        all.push_back(pending.added());
        assert!(all[0].displaced().now_or_never().is_none(), "one had proved its keys");
        all.push_back(pending.added());
        assert!(all[0].displaced().now_or_never().is_some());
        assert!(all[1].displaced().now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_listener_without_file_descriptors_does_not_spin() {
        let mut answers = [
            Err(io::Error::from_raw_os_error(nix::libc::EMFILE)),
            Err(io::ErrorKind::ConnectionAborted.into()),
            Ok(7),
        ]
        .into_iter();
        let began = Instant::now();
        assert_eq!(patiently(|| std::future::ready(answers.next().unwrap())).await, 7);
        let took = began.elapsed();
        assert!((PAUSE..2 * PAUSE).contains(&took), "one pause: {took:?}");
    }
}
