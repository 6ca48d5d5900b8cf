//! Workflows from a client's side: driving a workflow through its states, gathering its objects, showing its timeline.

pub(crate) mod drive;
pub(crate) mod gather;
pub(crate) mod launch;
pub(crate) mod lease;
pub(crate) mod life;
pub(crate) mod purge;
pub(crate) mod recorder;
pub(crate) mod signals;
pub(crate) mod timeline;
