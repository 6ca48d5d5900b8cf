//! Authorization: a function of the program that opens an API decides which requests for objects a client may make.

use std::{fmt, sync::Arc};

use http::Method;

use crate::status::Status;
use crate::verbs::{Subresource, Target};

/// Kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
}

/// A request for objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access<'a> {
    /// User of the client's [`crate::Identity`].
    pub user: &'a str,
    pub verb: Verb,
    /// API group of the kind; empty for the core group.
    pub group: &'a str,
    /// Plural name of the kind, such as `clientmounts`.
    pub resource: &'a str,
    /// True for a request that concerns only the object's status.
    pub is_status: bool,
    /// `None` for kinds that are in no namespace, and for requests over all namespaces.
    pub namespace: Option<&'a str>,
    /// `None` for requests that name no object: lists, most watches, and creations.
    pub name: Option<&'a str>,
}

type Decide = dyn Fn(&Access<'_>) -> Result<(), String> + Send + Sync;

/// The rights of a client: a function that returns why a request is refused.
#[derive(Clone)]
pub struct Rights(Arc<Decide>);

impl Rights {
    pub fn new(decide: impl Fn(&Access<'_>) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(decide))
    }

    pub(crate) fn check(
        &self,
        user: &str,
        (method, is_watch): (&Method, bool),
        target: &Target,
    ) -> Result<(), Status> {
        let verb = match (method, target.name.is_some()) {
            (&Method::GET, _) if is_watch => Verb::Watch,
            (&Method::GET, true) => Verb::Get,
            (&Method::GET, false) => Verb::List,
            (&Method::POST, _) => Verb::Create,
            (&Method::PUT, _) => Verb::Update,
            (&Method::PATCH, _) => Verb::Patch,
            (&Method::DELETE, _) => Verb::Delete,
            _ => return Err(Status::method_not_allowed()),
        };
        let access = Access {
            user,
            verb,
            group: &target.group,
            resource: &target.plural,
            is_status: target.subresource == Some(Subresource::Status),
            namespace: target.namespace.as_deref(),
            name: target.name.as_deref(),
        };
        (self.0)(&access).map_err(|why| Status::new(403, "Forbidden", why))
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rights")
    }
}
