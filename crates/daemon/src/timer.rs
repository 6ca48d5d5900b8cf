use tokio::time::{self, Instant};

/// Sleeps until `due`; for ever if it is `None`.
pub async fn sleep_until(due: Option<impl Into<Instant>>) {
    match due {
        Some(due) => time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
