//! The verbs of the API, one file each.

pub(crate) mod admit;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod install;
mod json_patch;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod strategic;
pub(crate) mod strategy;
pub(crate) mod update;
pub(crate) mod watch;

use crate::object::{Key, Object, Stored};
use crate::registry::{Definition, Registry, Resource};
use crate::status::Status;
use crate::store::State;
use std::sync::Arc;

/// The objects that a request path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    /// `None` for cluster-scoped kinds, and for requests over all namespaces.
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<Subresource>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subresource {
    Status,
    /// A subresource that this server does not know.
    Unknown,
}

impl Target {
    pub(crate) fn resolve(&self, registry: &Registry) -> Result<Resource, Status> {
        let resource = registry
            .find(&self.group, &self.version, &self.plural)
            .ok_or_else(|| self.no_such_kind())?;
        let definition = &resource.definition;
        let serves = match self.subresource {
            None => true,
            Some(Subresource::Status) => resource.version().has_status,
            Some(Subresource::Unknown) => false,
        };
        if !serves && definition.custom {
            let name = self.name.as_deref().unwrap_or_default();
            return Err(Status::not_found(definition.subject(name)));
        }
        let no_namespace = self.namespace.is_none() && self.name.is_some();
        let wrong_scope =
            if definition.namespaced { no_namespace } else { self.namespace.is_some() };
        if wrong_scope || !serves { Err(self.no_such_kind()) } else { Ok(resource) }
    }

    /// Returns the 404 for a path of an unknown kind: as in kube-apiserver, a Status in a built-in group, plain text
    /// in an unknown group.
    fn no_such_kind(&self) -> Status {
        match self.group.as_str() {
            "" | "apiextensions.k8s.io" | "coordination.k8s.io" | "events.k8s.io" => {
                Status::no_such_path()
            }
            _ => Status::page_not_found(),
        }
    }

    /// Answers 400 for an object whose namespace is not the path's namespace. An object may leave its namespace out;
    /// the namespace of a cluster-scoped object is ignored.
    fn check_namespace(&self, object: &Object) -> Result<(), Status> {
        match (self.namespace.as_deref(), object.namespace()) {
            (Some(here), there) if !there.is_empty() && here != there => {
                Err(Status::bad_request(format!(
                    "the namespace of the object ({there}) does not match the namespace on the URL ({here})"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Answers 400 for an object without a name, and for an object whose name or namespace differs from the path's.
    fn check_identity(&self, object: &Object) -> Result<(), Status> {
        let (here, there) = (self.name.as_deref().unwrap_or_default(), object.name());
        if here != there {
            return Err(Status::bad_request(format!(
                "the name of the object ({there}) does not match the name on the URL ({here})"
            )));
        }
        self.check_namespace(object)
    }

    pub(crate) fn get(&self, state: &State) -> Result<(Resource, Arc<Stored>), Status> {
        let resource = self.resolve(&state.registry)?;
        let name = self.name.as_deref().unwrap_or_default();
        let stored = state.objects.get(&self.key(&resource.definition, name)).cloned();
        let stored = stored.ok_or_else(|| Status::not_found(resource.definition.subject(name)))?;
        Ok((resource, stored))
    }

    pub(crate) fn key(&self, definition: &Definition, name: &str) -> Key {
        Key {
            resource: Arc::clone(&definition.id),
            namespace: self.namespace.clone().unwrap_or_default(),
            name: name.to_owned(),
        }
    }
}

/// Treatment of unknown fields (`fieldValidation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Strict,
    #[default]
    Warn,
    Ignore,
}
