//! Errors that nodes report for a directive's storage.

use api::ResourceError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{
    objects::view::Group,
    progress::{Outcome, Progress},
};

impl Group {
    /// Returns the worst error that nodes report.
    #[must_use]
    pub fn error(&self) -> Option<ResourceError> {
        self.error_of(|_| true)
    }

    /// Returns the worst error that nodes report for the objects that `which` accepts.
    pub fn error_of(&self, which: impl Fn(&ObjectMeta) -> bool) -> Option<ResourceError> {
        let blocks = self.blocks.values().map(|block| {
            (&block.metadata, block.status.as_ref().and_then(|status| status.error.as_ref()))
        });
        let file_systems = self.file_systems.values().map(|storage| {
            (&storage.metadata, storage.status.as_ref().and_then(|status| status.error.as_ref()))
        });
        let mounts = self.mounts.values().map(|mount| {
            (&mount.metadata, mount.status.as_ref().and_then(|status| status.error.as_ref()))
        });
        let all = blocks.chain(file_systems).chain(mounts);
        let errors = all.filter(|(metadata, _)| which(metadata)).filter_map(|(metadata, error)| {
            Some(name_node(metadata.namespace.as_deref().unwrap_or_default(), error?))
        });
        let worst = errors.map(Progress::failed).reduce(Progress::and)?;
        match worst.outcome {
            Outcome::Failed(error) => Some(error),
            Outcome::Done | Outcome::Working | Outcome::Wait(_) | Outcome::Queued(_) => None,
        }
    }
}

/// Adds the node's name to the node's error, unless the message already begins with the name.
pub fn name_node(node: &str, error: &ResourceError) -> ResourceError {
    let with_node = |message: &str| {
        let own = message.strip_prefix(node).and_then(|rest| rest.strip_prefix(": "));
        format!("Node: {node}: {}", own.unwrap_or(message))
    };
    ResourceError {
        debug_message: with_node(&error.debug_message),
        user_message: error.user_message.as_deref().map(with_node),
        ..error.clone()
    }
}
