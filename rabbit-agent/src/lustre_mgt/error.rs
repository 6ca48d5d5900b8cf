//! Defines why work on a NnfLustreMGT, its ConfigMap or its commands can fail.

use agent::error::Failure;
use api::Severity;
use controller::Retry;
use daemon::chain;
use storage::{host::CommandError, template::SiteCommandError};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum MgtError {
    #[error(
        "{field}: {value:?} is not a file system name to count from: use 8 letters from a to z"
    )]
    Name { field: String, value: String },
    #[error(
        "spec.fsNameStart: is empty, and spec.fsNameStartReference leads to no name: set fsNameStart to the first name to give out, 8 letters from a to z"
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
        "status.claimList: {0:?} is not a Lustre file system name, so the agent does not erase it: correct it, or remove the entry"
    )]
    NotErasable(String),
    #[error(
        "unable to remove fsname {fs_name:?} from MGT; until then no job gets this name: mount the target, or remove the entry from status.claimList"
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
    /// Retries by the timer: the agent does not watch ConfigMaps.
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
