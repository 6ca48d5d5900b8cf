//! What can be wrong with a NnfLustreMGT, its ConfigMap or its commands.

use agent::error::Failure;
use api::Severity;
use controller::Retry;
use daemon::chain;
use storage::{host::CommandError, template::SiteCommandError};
use thiserror::Error;

/// Why a part of the work failed.
#[derive(Debug, Error)]
pub enum MgtError {
    #[error("{field}: {value:?} is no file system name to count from: use 8 letters from a to z")]
    Name { field: String, value: String },
    #[error(
        "spec.fsNameStart: is empty, and spec.fsNameStartReference leads to no name: set it to the first name to give out, 8 letters from a to z"
    )]
    NoStart,
    #[error(
        "spec.fsNameStartReference: {kind} {namespace:?}/{name:?} is not a ConfigMap with a namespace and a name: set all three, or leave the reference out"
    )]
    Reference { kind: String, namespace: String, name: String },
    #[error(
        "spec.fsNameStartReference: {call} ConfigMap {place}: create it, and bind the ClusterRole warren-lustre-names in its namespace"
    )]
    ConfigMap {
        call: &'static str,
        place: String,
        #[source]
        source: Box<kube::Error>,
    },
    /// The status has a name that must not be appended to a command.
    #[error(
        "status.claimList: {0:?} is no Lustre file system name, and is not erased: correct it, or take the entry out"
    )]
    NotErasable(String),
    #[error(
        "unable to remove fsname {fs_name:?} from MGT, and it is not given out again before: mount the target, or take the entry out of status.claimList"
    )]
    Erase {
        fs_name: String,
        #[source]
        source: CommandError,
    },
    #[error(transparent)]
    Line(#[from] SiteCommandError),
    /// A command failed; later ones did not run.
    #[error("{field}: error running MGT command")]
    Command {
        field: String,
        #[source]
        source: CommandError,
    },
    /// The API stored less than the agent wrote; retrying would never end.
    #[error(
        "the API does not keep the status of a NnfLustreMGT as it was written: install the CRD of v1alpha11"
    )]
    NotKept,
}

impl From<&MgtError> for Failure {
    /// ConfigMaps are not watched, so the agent retries by the timer.
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
            // The workflow waits for all of these, and shows only errors above Minor.
            MgtError::Command { .. }
            | MgtError::ConfigMap { .. }
            | MgtError::NotErasable(_)
            | MgtError::Erase { .. }
            | MgtError::NotKept => {
                let failure =
                    Self { severity: Severity::Major, retry: Retry::Later, ..Self::waiting(text) };
                match error {
                    // The command line is from the profile, whose author reads this.
                    MgtError::Command { .. } => failure,
                    _ => failure.with_owner_text(
                        "file system names cannot be given out or taken back by the Lustre management target",
                    ),
                }
            }
        }
    }
}
