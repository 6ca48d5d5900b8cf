//! What all requests to the API have in common: how long they may take, how many run at a time, and when one is repeated.

use std::io;
use std::panic::resume_unwind;
use std::time::Duration;

use controller::{Delays, Retry};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Shortest delay before a refused write is tried again, which somebody has to make possible.
pub(crate) const REFUSED_DELAY: Duration = Duration::from_secs(30);
/// How long the API may take to answer a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Growing delays; a new value begins with the shortest.
#[derive(Debug, Default)]
pub(crate) struct Backoff(Option<Delays>);

impl Backoff {
    /// The next delay.
    pub(crate) fn next(&mut self) -> Duration {
        if self.0.is_none() {
            self.0 = Retry::Soon.delays();
        }
        self.0.as_mut().and_then(Iterator::next).unwrap_or(REFUSED_DELAY)
    }
}

/// Awaits a request for at most [`REQUEST_TIMEOUT`], because an API server may take it and die without an answer.
pub(crate) async fn answered<T>(request: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    timeout(REQUEST_TIMEOUT, request).await.unwrap_or_else(|_| {
        let text = format!("no answer within {} s", REQUEST_TIMEOUT.as_secs());
        Err(kube::Error::Service(io::Error::new(io::ErrorKind::TimedOut, text).into()))
    })
}

/// Starts a task for everything that `next` yields, until dropped. A panic in a task becomes a panic of the caller, because
/// nobody else awaits the tasks.
pub(crate) async fn for_each<T, N, F>(next: impl Fn() -> N, work: impl Fn(T) -> F)
where
    N: Future<Output = T>,
    F: Future<Output = ()> + Send + 'static,
{
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            subject = next() => drop(running.spawn(work(subject))),
            Some(ended) = running.join_next() => {
                if let Err(error) = ended && error.is_panic() {
                    resume_unwind(error.into_panic());
                }
            }
        }
    }
}
