//! Admission: a function of the program that opens an API, asked before a change is stored.

use crate::status::Status;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// What a client is about to do to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// A change that is right otherwise, as a validating webhook gets it.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    pub operation: Operation,
    /// Who makes it: the user of the client's [`crate::Identity`]; empty for what [`crate::Api::open`] installs.
    pub user: &'a str,
    /// Empty for the core group.
    pub group: &'a str,
    pub version: &'a str,
    /// The plural, such as `clientmounts`.
    pub resource: &'a str,
    /// `status`, or none.
    pub subresource: Option<&'a str>,
    /// The object as it is stored; none for one that is created.
    pub old: Option<&'a Value>,
    /// The object as it is to be stored; none for one that is deleted.
    pub new: Option<&'a Value>,
}

type Admit = dyn Fn(Change<'_>) -> Result<(), Status> + Send + Sync;

/// Admits or refuses changes; by default it admits all. Clients' writes are asked about, dry runs among them, and what
/// [`crate::Api::open`] installs; what garbage collection does is not. It runs on the writer's thread and must not block.
#[derive(Clone, Default)]
pub struct Admission(Option<Arc<Admit>>);

impl Admission {
    /// Asks `admit` of every change. Its refusal is the answer: a webhook's would be `Status::new(403, "Forbidden", …)`.
    pub fn new(admit: impl Fn(Change<'_>) -> Result<(), Status> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(admit)))
    }

    /// Whether there is anybody to ask.
    pub(crate) fn asks(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn admit(&self, change: Change<'_>) -> Result<(), Status> {
        self.0.as_ref().map_or(Ok(()), |admit| admit(change))
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Admission").field(&self.asks()).finish()
    }
}
