//! `create_persistent`, `persistentdw` and `destroy_persistent`: storage that outlives the workflow that made it.
//!
//! A workflow's plan makes the storage, and asks for its end. What many workflows share is changed by the plan of the storage
//! itself ([`instance`]) alone: who is among the consumers, who has access, what is mounted. A directive that uses it waits for
//! that.

mod create;
mod destroy;
mod instance;
mod uses;

use api::WorkflowState;
use directive::Command;

pub use instance::plan_instance;

use crate::{plan::Driver, progress::Progress, view::View};

/// Makes, uses and destroys persistent storage.
#[derive(Clone, Copy, Debug)]
pub struct PersistentStorage;

impl Driver for PersistentStorage {
    fn takes(&self, command: &Command) -> bool {
        matches!(
            command,
            Command::CreatePersistent(_) | Command::DestroyPersistent(_) | Command::Persistentdw(_)
        )
    }

    fn advance(
        &self,
        view: &View<'_>,
        index: usize,
        command: &Command,
        state: &WorkflowState,
    ) -> Progress {
        match (command, state) {
            (Command::CreatePersistent(create), WorkflowState::Proposal) => {
                create::propose(view, index, create)
            }
            (Command::CreatePersistent(create), WorkflowState::Setup) => {
                create::make(view, index, create)
            }
            (Command::CreatePersistent(_), WorkflowState::Teardown) => {
                create::roll_back(view, index)
            }
            (Command::Persistentdw(used), state) => uses::advance(view, index, used, state),
            (Command::DestroyPersistent(_), WorkflowState::Proposal) => {
                destroy::propose(view, index)
            }
            (Command::DestroyPersistent(_), WorkflowState::Teardown) => {
                destroy::destroy(view, index)
            }
            _ => Progress::default(),
        }
    }
}
