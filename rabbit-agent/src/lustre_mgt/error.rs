//! What can be wrong with a management target's object, its ConfigMap or its commands.

use agent::error::Failure;
use api::Severity;
use controller::Retry;
use daemon::chain;
use storage::{host::CommandError, template::SiteCommandError};
use thiserror::Error;

/// Why something that the object asks for was not done.
#[derive(Debug, Error)]
pub enum MgtError {
    /// It cannot be counted from.
    #[error("{field}: {value:?} is no file system name to count from: use 8 letters from a to z")]
    Name {
        /// Where it stands.
        field: String,
        /// What stands there.
        value: String,
    },
    /// Nothing says which name is the first.
    #[error(
        "spec.fsNameStart: is empty, and spec.fsNameStartReference leads to no name: set it to the first name to give out, 8 letters from a to z"
    )]
    NoStart,
    /// The reference does not lead to a ConfigMap.
    #[error(
        "spec.fsNameStartReference: {kind} {namespace:?}/{name:?} is not a ConfigMap with a namespace and a name: set all three, or leave the reference out"
    )]
    Reference {
        /// Of what kind it is.
        kind: String,
        /// Where it is said to be.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The API does not give it, or does not take it.
    #[error(
        "spec.fsNameStartReference: {call} ConfigMap {place}: create it, and bind the ClusterRole warren-lustre-names in its namespace"
    )]
    ConfigMap {
        /// What was tried.
        call: &'static str,
        /// Namespace and name.
        place: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The record names something that must not be put after a command.
    #[error(
        "status.claimList: {0:?} is no Lustre file system name, and is not erased: correct it, or take the entry out"
    )]
    NotErasable(String),
    /// The name is still on the target.
    #[error(
        "unable to remove fsname {fs_name:?} from MGT, and it is not given out again before: mount the target, or take the entry out of status.claimList"
    )]
    Erase {
        /// Which.
        fs_name: String,
        /// Why.
        #[source]
        source: CommandError,
    },
    /// A line that a shell could not read; nothing of its entry was run.
    #[error(transparent)]
    Line(#[from] SiteCommandError),
    /// A command failed; those after it were not run.
    #[error("{field}: error running MGT command")]
    Command {
        /// Which.
        field: String,
        /// Why.
        #[source]
        source: CommandError,
    },
    /// The API answered a write with less than was written, and would be asked for ever.
    #[error(
        "the API does not keep the status of a NnfLustreMGT as it was written: install the CRD of v1alpha11"
    )]
    NotKept,
}

impl From<&MgtError> for Failure {
    /// ConfigMaps are not watched, so what is wrong with one is looked at again by the clock.
    fn from(error: &MgtError) -> Self {
        let text = chain(error);
        match error {
            MgtError::Name { field, .. } if field.starts_with("ConfigMap") => {
                Self { retry: Retry::Later, ..Self::input(text) }
            }
            MgtError::Name { .. }
            | MgtError::NoStart
            | MgtError::Reference { .. }
            | MgtError::Line(_) => Self::input(text),
            // The workflow waits for all of these, and shows only what is more than minor.
            MgtError::Command { .. }
            | MgtError::ConfigMap { .. }
            | MgtError::NotErasable(_)
            | MgtError::Erase { .. }
            | MgtError::NotKept => {
                let failure =
                    Self { severity: Severity::Major, retry: Retry::Later, ..Self::waiting(text) };
                match error {
                    // The command line is the owner's profile's.
                    MgtError::Command { .. } => failure,
                    _ => failure.told_owner(
                        "file system names cannot be given out or taken back by the Lustre management target",
                    ),
                }
            }
        }
    }
}
