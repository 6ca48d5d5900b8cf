/// Runs work that may block in the kernel on a separate thread. A panic of the work becomes a panic of the caller.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let result = tokio::task::spawn_blocking(work).await;
    result.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
