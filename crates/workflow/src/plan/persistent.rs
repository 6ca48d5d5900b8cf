//! `create_persistent`, `persistentdw` and `destroy_persistent`: storage that outlives the workflow that made it.
//!
//! The plan of a workflow creates the storage, and requests its destruction. The consumers, access and mounts are
//! shared by several workflows, so no plan of a workflow changes them: the engine plans for each
//! PersistentStorageInstance too, and only this plan of the storage ([`instance`]) changes them. A directive that uses
//! the storage waits for the plan of the storage.

mod create;
mod destroy;
mod instance;
mod uses;

use api::WorkflowState;
use directive::Command;

pub use instance::plan_instance;

use crate::{objects::view::View, plan::Driver, progress::Progress};

/// Plans the directives about persistent storage.
#[derive(Clone, Copy, Debug)]
pub struct PersistentStorage;

impl Driver for PersistentStorage {
    fn handles(&self, command: &Command) -> bool {
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
