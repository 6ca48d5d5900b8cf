/// Runs work that may block in the kernel on a thread of its own. A panic of the work becomes one of the caller.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
