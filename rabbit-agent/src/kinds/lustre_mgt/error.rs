//! Defines the errors of work on a NnfLustreMGT, its ConfigMap or its commands.

use agent::error::Failure;
use api::Severity;
use causes::CommandError;
use controller::Retry;
use daemon::chain;
use storage::template::SiteCommandError;
use thiserror::Error;

use super::config_map::KEY;

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
    /// The status has a name that the agent must not append to a command.
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
    /// A command failed; the commands after it did not run.
    #[error("{field}: error running MGT command")]
    Command {
        field: String,
        #[source]
        source: CommandError,
    },
    /// The API stored only a part of the status that the agent wrote; retries would never end.
    #[error(
        "the API does not keep the status of a NnfLustreMGT as it was written: install the CRD of v1alpha11"
    )]
    NotKept,
    #[error(
        "the API does not keep data.{KEY} of ConfigMap {0} as it was written: find the program that changes it"
    )]
    NameNotKept(String),
}

impl From<&MgtError> for Failure {
    /// Makes the timer retry: the agent does not watch ConfigMaps.
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
            // The workflow waits for the work in all of these cases, and shows only errors above Minor.
            MgtError::Command { .. }
            | MgtError::ConfigMap { .. }
            | MgtError::NotErasable(_)
            | MgtError::Erase { .. }
            | MgtError::NotKept
            | MgtError::NameNotKept(_) => {
                let failure =
                    Self { severity: Severity::Major, retry: Retry::Later, ..Self::waiting(text) };
                match error {
                    // The author of the profile wrote the command line, and reads this failure.
                    MgtError::Command { .. } => failure,
                    _ => failure.with_owner_text(
                        "file system names cannot be given out or taken back by the Lustre management target",
                    ),
                }
            }
        }
    }
}
