//! The interface to podman and the rabbit's file system.

use std::{fmt, io, path::PathBuf};

use causes::CommandError;
use storage::desired::ObjectUid;
use thiserror::Error;

use super::{
    observed::{AnswerError, Logs, Observed},
    step::Step,
};

/// Runs podman and accesses files on a rabbit: [`super::PodmanHost`], or a fake in tests.
pub trait Host: fmt::Debug + Send + Sync {
    /// Returns the state of an object's pods and containers, with the ends of the logs that `logs` selects.
    ///
    /// # Errors
    /// podman failed, or its output is unreadable.
    fn observe(&self, uid: ObjectUid, logs: Logs) -> Result<Observed, HostError>;

    /// Carries out one step.
    ///
    /// # Errors
    /// The step failed or missed its deadline.
    fn apply(&self, step: &Step) -> Result<(), HostError>;

    /// Checks that exactly at each of these places a Lustre file system is mounted.
    ///
    /// # Errors
    /// A path without a Lustre mount, or an unreadable mount table.
    fn check_lustre(&self, places: &[String]) -> Result<(), HostError>;
}

/// Why the rabbit could not observe or change containers.
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
        "{} is in spec.globalLustre, and there is {}: mount the Lustre file system there, at the mountRoot of its LustreFileSystem", .path.display(), describe_mount(.found.as_deref())
    )]
    NoLustre {
        path: PathBuf,
        /// Type of the file system that is mounted at the place.
        found: Option<String>,
    },
    #[error("this rabbit cannot resolve {rabbit}: add it to DNS or to /etc/hosts")]
    NoAddress { rabbit: String },
    #[error(
        "this rabbit cannot resolve {rabbit} to an IPv4 address, which MPI's network needs: add it to DNS or to /etc/hosts"
    )]
    NoIpv4 { rabbit: String },
    #[error(
        "pod {pod} has no infra process that holds its network: see `podman pod inspect {pod}`"
    )]
    NoProcess { pod: String },
    #[error("the files of these containers are gone: there is no ConfigMap {namespace}/{name}")]
    NoFiles { namespace: String, name: String },
    #[error("the keys of this attempt are gone: there is no Secret {namespace}/{name}")]
    NoKeys { namespace: String, name: String },
    #[error(
        "podhelper, which starts the ranks of MPI, is not at {}: install it there, or name its path with --podhelper", .path.display()
    )]
    NoPodhelper { path: PathBuf },
}

fn describe_mount(kind: Option<&str>) -> String {
    kind.map_or_else(|| "no mount".to_owned(), |kind| format!("a mount of {kind}"))
}
