//! The verbs of the API, one file each.

pub(crate) mod admit;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod install;
mod json_patch;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod strategic;
pub(crate) mod strategy;
pub(crate) mod update;
pub(crate) mod watch;

use crate::object::{Key, Object};
use crate::registry::{Definition, Registry, Resource};
use crate::status::Status;
use std::sync::Arc;

/// What a request path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    /// None for cluster-scoped kinds, and for all namespaces together.
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<Subresource>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subresource {
    Status,
    /// Of namespaces only.
    Finalize,
    /// One that no kind of this server has.
    Unknown,
}

impl Subresource {
    fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Finalize => "finalize",
            Self::Unknown => "",
        }
    }
}

impl Target {
    /// Finds the kind.
    ///
    /// # Errors
    /// 404 for a kind, scope or subresource that is not served.
    pub(crate) fn resolve(&self, registry: &Registry) -> Result<Resource, Status> {
        let resource = registry
            .find(&self.group, &self.version, &self.plural)
            .ok_or_else(|| self.nowhere())?;
        let definition = &resource.definition;
        let homeless = self.name.is_some() && self.namespace.is_none();
        let wrong_scope = match definition.namespaced {
            true => homeless && definition.custom,
            false => self.namespace.is_some(),
        };
        let serves = match self.subresource {
            None => true,
            Some(Subresource::Status) => resource.version().has_status,
            Some(Subresource::Finalize) => self.plural == "namespaces" && self.group.is_empty(),
            Some(Subresource::Unknown) => false,
        };
        if !serves && !wrong_scope && definition.custom {
            let name = self.name.as_deref().unwrap_or_default();
            return Err(Status::not_found(definition.subject(name)));
        }
        if wrong_scope || !serves {
            return Err(self.nowhere());
        }
        Ok(resource)
    }

    /// The 404 of a path without a kind: built-in groups answer a Status, unknown groups plain text, as in kube-apiserver.
    pub(crate) fn nowhere(&self) -> Status {
        match self.group.as_str() {
            "" | "apiextensions.k8s.io" | "coordination.k8s.io" | "events.k8s.io" => {
                Status::no_such_path()
            }
            _ => Status::page_not_found(),
        }
    }

    /// An object may leave its namespace out. The namespace of a cluster-scoped object is ignored.
    ///
    /// # Errors
    /// 400 for another namespace than the path's.
    fn check_namespace(&self, object: &Object) -> Result<(), Status> {
        match (self.namespace.as_deref(), object.namespace()) {
            (None, _) | (Some(_), "") => Ok(()),
            (Some(here), there) if here == there => Ok(()),
            (Some(_), _) => Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            )),
        }
    }

    pub(crate) fn key(&self, definition: &Definition, name: &str) -> Key {
        Key {
            resource: Arc::clone(&definition.id),
            namespace: self.namespace.clone().unwrap_or_default(),
            name: name.to_owned(),
        }
    }
}

/// How strictly unknown fields are taken (`fieldValidation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Strict,
    #[default]
    Warn,
    Ignore,
}

impl FieldValidation {
    /// Refuses what is wrong with the fields of an object, or says what to warn of.
    ///
    /// # Errors
    /// 400 under strict validation.
    pub(crate) fn judge(
        self,
        resource: &Resource,
        problems: Vec<String>,
    ) -> Result<Vec<String>, Status> {
        match self {
            Self::Strict if !problems.is_empty() => {
                let (kind, version) = (&resource.definition.kind, &resource.version().name);
                let list = problems.join(", ");
                Err(Status::bad_request(format!(
                    "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {list}"
                )))
            }
            Self::Strict | Self::Ignore => Ok(Vec::new()),
            Self::Warn => Ok(problems),
        }
    }
}
