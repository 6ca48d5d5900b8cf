//! Admission: functions of the program that opens an API, called before a change is stored.

use crate::status::Status;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// The operation that a client requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// A change, with the same members that Kubernetes sends to an admission webhook.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    pub operation: Operation,
    /// User of the client's [`crate::Identity`]; empty for objects that [`crate::Api::open`] installs.
    pub user: &'a str,
    /// API group of the kind; empty for the core group.
    pub group: &'a str,
    pub version: &'a str,
    /// Plural name of the kind, such as `clientmounts`.
    pub resource: &'a str,
    /// `status`, or `None` for the object itself.
    pub subresource: Option<&'a str>,
    /// The object before the change; `None` when the change creates it.
    pub old: Option<&'a Value>,
    /// The object after the change; `None` when the change deletes it.
    pub new: Option<&'a Value>,
}

type Complete = dyn Fn(Change<'_>) -> Option<Value> + Send + Sync;
type Admit = dyn Fn(Change<'_>) -> Result<(), Status> + Send + Sync;

/// Functions that complete new objects, and admit or refuse changes; by default there are none. The API calls them for
/// clients' writes, dry runs among them, and for objects that [`crate::Api::open`] installs; it does not call them for
/// garbage collection. Both functions run on the writer's thread and must not block.
#[derive(Clone, Default)]
pub struct Admission {
    complete: Option<Arc<Complete>>,
    admit: Option<Arc<Admit>>,
}

impl Admission {
    /// Calls `admit` for every change. A refusal of `admit` is the answer to the client; to answer as kube-apiserver
    /// does when a webhook refuses, `admit` returns `Status::new(403, "Forbidden", …)`.
    pub fn new(admit: impl Fn(Change<'_>) -> Result<(), Status> + Send + Sync + 'static) -> Self {
        Self { complete: None, admit: Some(Arc::new(admit)) }
    }

    /// Calls `complete` for each new object. The API stores the object that `complete` returns; on `None` it stores the
    /// new object unchanged. The API calls `complete` before validation, as kube-apiserver calls mutating webhooks.
    #[must_use]
    pub fn completing(
        self,
        complete: impl Fn(Change<'_>) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        Self { complete: Some(Arc::new(complete)), ..self }
    }

    /// Returns whether the program set a function that admits or refuses changes.
    pub(crate) fn has_admit_function(&self) -> bool {
        self.admit.is_some()
    }

    /// Returns whether the program set a function that completes new objects.
    pub(crate) fn has_complete_function(&self) -> bool {
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
        debug
            .field("has_complete_function", &self.has_complete_function())
            .field("has_admit_function", &self.has_admit_function())
            .finish()
    }
}
