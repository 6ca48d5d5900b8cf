//! Index trees: directories that show all allocations of one directive on a rabbit, with a symbolic link per compute.

use std::fmt;

use thiserror::Error;

use super::{MountPoint, NodeName};

/// The reason why a link cannot be in a tree.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IndexLinkError {
    #[error(
        "compute {0:?} is not a host name: use letters, digits, '-' and '.', at most 253 characters"
    )]
    NotHostName(String),
    /// The link would have the name of an index directory, which may be a mount point.
    #[error("compute {0:?} looks like an index directory: a host may not be called node-<number>")]
    LooksLikeIndex(String),
    #[error("target {0:?} is not a name in the tree")]
    TargetOutside(String),
}

/// The link `<compute> -> <target>` in a tree's root; `compute` and `target` are names without a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexLink {
    compute: NodeName,
    target: String,
}

impl IndexLink {
    /// Creates a link from a compute's host name to the last component of a mount point.
    pub fn new(compute: &str, target: &str) -> Result<Self, IndexLinkError> {
        let looks_like_index = compute
            .strip_prefix("node-")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()));
        if looks_like_index {
            return Err(IndexLinkError::LooksLikeIndex(compute.to_owned()));
        }
        let compute =
            compute.parse().map_err(|_| IndexLinkError::NotHostName(compute.to_owned()))?;
        if target.is_empty()
            || target == "."
            || target == ".."
            || target.contains('/')
            || target.contains('\0')
            || target.len() > 255
        {
            return Err(IndexLinkError::TargetOutside(target.to_owned()));
        }
        Ok(Self { compute, target: target.to_owned() })
    }

    pub fn compute(&self) -> &NodeName {
        &self.compute
    }

    /// Returns the link's target: a name in the same directory.
    pub fn target(&self) -> &str {
        &self.target
    }
}

impl fmt::Display for IndexLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.compute, self.target)
    }
}

/// The links that the root of an index tree should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexTree {
    /// The path `<root>/<workflow uid>-<directive>`.
    pub root: MountPoint,
    /// The links, at most one per compute.
    pub links: Vec<IndexLink>,
}
