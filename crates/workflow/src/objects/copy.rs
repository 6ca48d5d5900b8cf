//! The copies that directives ask for, and the states in which they run.

use api::{Workflow, WorkflowState};
use directive::{Command, Copy, location::Location};

/// Whether data is copied into or out of the job's storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
}

impl Direction {
    /// Returns the state in which data is copied.
    pub(crate) fn state(self) -> WorkflowState {
        match self {
            Self::In => WorkflowState::DataIn,
            Self::Out => WorkflowState::DataOut,
        }
    }

    /// Returns the key of the side that is storage on rabbits, which is copied allocation by allocation.
    pub(crate) fn storage_side(self) -> &'static str {
        match self {
            Self::In => "destination",
            Self::Out => "source",
        }
    }

    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::In => "copy_in",
            Self::Out => "copy_out",
        }
    }
}

/// Returns the copy of a `copy_in` or `copy_out` command.
pub(crate) fn copy_of(command: &Command) -> Option<(&Copy, Direction)> {
    match command {
        Command::CopyIn(copy) => Some((copy, Direction::In)),
        Command::CopyOut(copy) => Some((copy, Direction::Out)),
        _ => None,
    }
}

/// Returns true if a copy of this state names this persistent storage.
pub(crate) fn names_persistent(workflow: &Workflow, name: &str, state: &WorkflowState) -> bool {
    let is_named =
        |side: &Location| matches!(side, Location::Persistent(inside) if inside.name == name);
    let commands = workflow.spec.directives.iter().filter_map(|line| Command::read(line));
    commands.into_iter().any(|command| {
        copy_of(&command).is_some_and(|(copy, direction)| {
            direction.state() == *state && (is_named(&copy.source) || is_named(&copy.destination))
        })
    })
}
