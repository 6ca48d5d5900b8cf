use tokio::time::{self, Instant};

/// Sleeps until `due`, or for ever if `due` is `None`.
pub async fn sleep_until(due: Option<impl Into<Instant>>) {
    match due {
        Some(due) => time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
