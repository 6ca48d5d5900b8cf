//! A writer's permit to send requests, which it gives back while it waits.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Semaphore>,
    /// `None` while the writer waits.
    permit: Option<OwnedSemaphorePermit>,
}

impl Turn {
    /// Waits for a free permit.
    pub(super) async fn take(turns: &Arc<Semaphore>) -> Self {
        let mut turn = Self { turns: Arc::clone(turns), permit: None };
        turn.resume().await;
        turn
    }

    /// Waits for `wait` without a permit, and then for a free permit.
    pub(super) async fn after(&mut self, wait: impl Future) {
        self.permit = None;
        wait.await;
        self.resume().await;
    }

    async fn resume(&mut self) {
        let permit = Arc::clone(&self.turns).acquire_owned().await;
        self.permit = Some(permit.expect("nobody closes the turns"));
    }
}
