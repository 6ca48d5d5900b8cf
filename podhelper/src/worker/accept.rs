//! Limits connections that have not proved their keys, so that clients without keys cannot keep a launcher from its
//! worker.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::sleep,
};

use super::log;

/// Most connections that may be proving their keys. Each launcher has one or two at a time.
pub(super) const MAX_UNPROVED: usize = 64;
/// Pause after a failed accept, for example for want of a file descriptor.
const PAUSE: Duration = Duration::from_secs(1);

/// Connections that have not proved their keys, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Pending(VecDeque<Arc<Notify>>);

/// Held by a connection until it has proved its keys.
#[derive(Debug)]
pub(super) struct Unproved(Arc<Notify>);

impl Unproved {
    /// Returns when this connection must make room.
    pub(super) async fn displaced(&self) {
        self.0.notified().await;
    }
}

impl Pending {
    /// Accepts the next connection.
    pub(super) async fn accept(&mut self, listener: &TcpListener) -> (TcpStream, Unproved) {
        let tcp = accept_with_retries(|| listener.accept()).await.0;
        (tcp, self.add())
    }

    /// Adds a connection. If there are too many, drops the oldest: a launcher proves its keys
    /// sooner than others arrive.
    pub(super) fn add(&mut self) -> Unproved {
        // A connection that has proved its keys, or has ended, has dropped its reference.
        self.0.retain(|connection| Arc::strong_count(connection) > 1);
        if self.0.len() >= MAX_UNPROVED
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.notify_one();
        }
        let new = Arc::new(Notify::new());
        self.0.push_back(new.clone());
        Unproved(new)
    }
}

/// Accepts a connection, after any number of failures. Pauses, because a listener without file descriptors would
/// fail again at once.
pub(super) async fn accept_with_retries<T, F>(mut accept: impl FnMut() -> F) -> T
where
    F: Future<Output = io::Result<T>>,
{
    loop {
        match accept().await {
            Ok(taken) => return taken,
            // The connection ended before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                log(&format!("cannot accept a connection: {error}; trying again"));
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
    async fn the_oldest_connection_without_keys_makes_room() {
        let mut pending = Pending::default();
        let mut all: VecDeque<Unproved> = (0..MAX_UNPROVED).map(|_| pending.add()).collect();
        assert!(
            all.iter().all(|unproved| unproved.displaced().now_or_never().is_none()),
            "all have room"
        );
        drop(all.pop_back());
        all.push_back(pending.add());
        assert!(all[0].displaced().now_or_never().is_none(), "one connection had proved its keys");
        all.push_back(pending.add());
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
        assert_eq!(accept_with_retries(|| std::future::ready(answers.next().unwrap())).await, 7);
        let took = began.elapsed();
        assert!((PAUSE..2 * PAUSE).contains(&took), "one pause: {took:?}");
    }
}
