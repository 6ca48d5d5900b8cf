//! Limits the number of connections whose peers have not proved that they have the keys, so that clients without keys
//! cannot keep a launcher from its worker.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::sleep,
};

use super::log;

/// Maximum number of connections whose peers may be proving that they have the keys. Each launcher has one or two such
/// connections at a time.
pub(super) const MAX_UNPROVED: usize = 64;
/// Pause after a failed accept, for example when no file descriptor is free.
const PAUSE: Duration = Duration::from_secs(1);

/// The connections whose peers have not proved that they have the keys; the oldest connection is first.
#[derive(Debug, Default)]
pub(super) struct Pending(VecDeque<Arc<Notify>>);

/// Held by a connection until its peer has proved that it has the keys.
#[derive(Debug)]
pub(super) struct Unproved(Arc<Notify>);

impl Unproved {
    /// Returns when this connection must be closed to make room for a newer one.
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

    /// Adds a connection. If there are too many connections, drops the oldest: a launcher proves its keys long before
    /// so many others connect, so the oldest connection is not a launcher's.
    pub(super) fn add(&mut self) -> Unproved {
        // A connection drops its reference when its peer has proved its keys, or when it ends.
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

/// Accepts a connection, and retries after each failure. Pauses before a retry, because without a free file descriptor
/// the next accept would fail at once.
pub(super) async fn accept_with_retries<T, F>(mut accept: impl FnMut() -> F) -> T
where
    F: Future<Output = io::Result<T>>,
{
    loop {
        match accept().await {
            Ok(taken) => return taken,
            // The peer ended the connection before the worker accepted it.
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
    async fn too_many_connections_without_keys_displace_the_oldest() {
        let mut pending = Pending::default();
        let mut all: VecDeque<Unproved> = (0..MAX_UNPROVED).map(|_| pending.add()).collect();
        assert!(
            all.iter().all(|unproved| unproved.displaced().now_or_never().is_none()),
            "no connection is displaced"
        );
        drop(all.pop_back());
        all.push_back(pending.add());
        assert!(
            all[0].displaced().now_or_never().is_none(),
            "a connection that proved its keys does not count"
        );
        all.push_back(pending.add());
        assert!(all[0].displaced().now_or_never().is_some());
        assert!(all[1].displaced().now_or_never().is_none());
    }

    #[tokio::test]
    async fn after_a_failed_accept_the_worker_pauses_before_it_tries_again() {
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
