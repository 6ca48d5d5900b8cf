//! What cannot be computed.

use std::{fmt, io, path::PathBuf};

use storage::{desired::ObjectUid, host::CommandError};
use thiserror::Error;

use super::{
    observed::{AnswerError, Logs, Observed},
    step::Step,
};

/// The node, or one in memory.
pub trait Host: fmt::Debug + Send + Sync {
    /// What there is of an object's containers, with these logs.
    ///
    /// # Errors
    /// When it cannot be told.
    fn observe(&self, uid: ObjectUid, logs: Logs) -> Result<Observed, HostError>;

    /// Makes a change.
    ///
    /// # Errors
    /// When it could not be made, or not in time.
    fn apply(&self, step: &Step) -> Result<(), HostError>;

    /// Checks that a Lustre is mounted at exactly each of these places.
    ///
    /// # Errors
    /// When there is none, or nobody can tell.
    fn check_lustre(&self, places: &[String]) -> Result<(), HostError>;
}

/// The node did not do it.
#[derive(Debug, Error)]
pub enum HostError {
    #[error(transparent)]
    Podman(#[from] CommandError),
    #[error(transparent)]
    Answer(#[from] AnswerError),
    #[error("{}", .path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "{} is to be a global Lustre of this rabbit, and there is {}: mount it there, at the mountRoot of its LustreFileSystem", .path.display(), mount(.found.as_deref())
    )]
    NoLustre {
        path: PathBuf,
        /// The type of what is mounted there.
        found: Option<String>,
    },
    #[error("{rabbit} has no address on this rabbit: add it to DNS or to /etc/hosts")]
    NoAddress { rabbit: String },
    #[error(
        "{rabbit} has no IPv4 address on this rabbit, and MPI's network needs one: add it to DNS or to /etc/hosts"
    )]
    NoIpv4 { rabbit: String },
    #[error("pod {pod} has no process that holds its network")]
    NoProcess { pod: String },
    #[error("the files of these containers are gone: there is no ConfigMap {namespace}/{name}")]
    NoFiles { namespace: String, name: String },
    #[error("the keys of this attempt are gone: there is no Secret {namespace}/{name}")]
    NoKeys { namespace: String, name: String },
    #[error(
        "podhelper, which starts the ranks of MPI, is not at {}: put it there, or name its path with --podhelper", .path.display()
    )]
    NoPodhelper { path: PathBuf },
}

fn mount(kind: Option<&str>) -> String {
    kind.map_or_else(|| "no mount".to_owned(), |kind| format!("a mount of {kind}"))
}
