//! Admission: functions of the program that opens an API, asked before a change is stored.

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

/// A change, as a webhook gets it.
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

type Complete = dyn Fn(Change<'_>) -> Option<Value> + Send + Sync;
type Admit = dyn Fn(Change<'_>) -> Result<(), Status> + Send + Sync;

/// Completes new objects, and admits or refuses changes; by default it does neither. The API asks about clients' writes, dry runs
/// among them, and about what [`crate::Api::open`] installs; it does not ask about garbage collection. Both functions run on the
/// writer's thread and must not block.
#[derive(Clone, Default)]
pub struct Admission {
    complete: Option<Arc<Complete>>,
    admit: Option<Arc<Admit>>,
}

impl Admission {
    /// Asks `admit` about every change. Its refusal is the answer: a webhook's would be `Status::new(403, "Forbidden", …)`.
    pub fn new(admit: impl Fn(Change<'_>) -> Result<(), Status> + Send + Sync + 'static) -> Self {
        Self { complete: None, admit: Some(Arc::new(admit)) }
    }

    /// Asks `complete` for what is to be stored instead of a new object; `None` leaves the object as it is. Comes before
    /// validation, as mutating webhooks do.
    #[must_use]
    pub fn completing(
        self,
        complete: impl Fn(Change<'_>) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        Self { complete: Some(Arc::new(complete)), ..self }
    }

    /// Whether there is a function that admits.
    pub(crate) fn asks(&self) -> bool {
        self.admit.is_some()
    }

    /// Whether there is a function that completes.
    pub(crate) fn completes(&self) -> bool {
        self.complete.is_some()
    }

    pub(crate) fn complete(&self, change: Change<'_>) -> Option<Value> {
        self.complete.as_ref().and_then(|complete| complete(change))
    }

    pub(crate) fn admit(&self, change: Change<'_>) -> Result<(), Status> {
        self.admit.as_ref().map_or(Ok(()), |admit| admit(change))
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Admission");
        debug.field("completes", &self.completes()).field("asks", &self.asks()).finish()
    }
}
