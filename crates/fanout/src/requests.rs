//! Requests to the API: their timeout, the delays before retries, and one task per object.

use std::io;
use std::panic::resume_unwind;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

/// Shortest delay before a refused write is repeated: the API refuses the write until an object or a rule has changed.
pub(crate) const REFUSED_DELAY: Duration = Duration::from_secs(30);
/// Longest time that the API may take to answer a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Awaits a request for at most [`REQUEST_TIMEOUT`]: an API server that dies after it has read the request never
/// answers.
pub(crate) async fn with_timeout<T>(
    request: impl Future<Output = kube::Result<T>>,
) -> kube::Result<T> {
    timeout(REQUEST_TIMEOUT, request).await.unwrap_or_else(|_| {
        let text = format!("no answer within {} s", REQUEST_TIMEOUT.as_secs());
        Err(kube::Error::Service(io::Error::new(io::ErrorKind::TimedOut, text).into()))
    })
}

/// Starts a task for every item that `next` yields, until this future is dropped. If a task panics, this function
/// panics too, because no other code would notice.
pub(crate) async fn for_each<T, N, F>(next: impl Fn() -> N, work: impl Fn(T) -> F)
where
    N: Future<Output = T>,
    F: Future<Output = ()> + Send + 'static,
{
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            item = next() => drop(running.spawn(work(item))),
            Some(ended) = running.join_next() => {
                if let Err(error) = ended && error.is_panic() {
                    resume_unwind(error.into_panic());
                }
            }
        }
    }
}
