//! A writer's turn, of which there are few: whoever waits gives it to others.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Semaphore>,
    /// None while it waits.
    permit: Option<OwnedSemaphorePermit>,
}

impl Turn {
    /// The next turn that is free.
    pub(super) async fn take(turns: &Arc<Semaphore>) -> Self {
        let mut turn = Self { turns: Arc::clone(turns), permit: None };
        turn.resume().await;
        turn
    }

    /// Goes on after `wait`, and lets others have the turn meanwhile.
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
