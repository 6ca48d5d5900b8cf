/// Runs what may block in the kernel; a panic goes on in who awaits it.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
