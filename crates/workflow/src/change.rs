//! Changes of objects: the steps of a plan. Each is of one object, and none depends on another of the same plan.

use std::fmt;

use api::guarded_change;
use controller::Object;
use json_patch::Patch;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    ResourceExt,
    api::{ApiResource, DynamicObject},
};
use serde::Serialize;

/// An object by kind and place.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its kind.
    pub resource: ApiResource,
    /// Its namespace; empty where its kind is in none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// One change of one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Create it.
    Create(Target, Box<DynamicObject>),
    /// Create a Secret with fresh keys. An existing one counts as success: its name is that of one attempt.
    CreateKeys(Target, Box<DynamicObject>),
    /// Patch what is not its status. The API refuses the patch once the object has moved on.
    Patch(Target, Patch),
    /// Patch its status, likewise.
    Status(Target, Patch),
    /// Delete it, if it is still the object with this uid.
    Delete(Target, String),
    /// Make this change if the API still has the claim under which it was planned.
    IfClaimed(ClaimRef, Box<Change>),
}

/// A claim of a ContainerRun, as the API had it when a change was planned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimRef {
    /// Namespace of the run.
    pub namespace: String,
    /// Name of the run.
    pub name: String,
    /// Uid of the run: one of the same name is another.
    pub uid: String,
    /// Who claims it.
    pub holder: String,
    /// Number of the claim.
    pub epoch: i64,
}

impl Change {
    /// Creates this object.
    pub fn create<K: Object>(object: &K) -> Self {
        Self::Create(Target::of(object), Box::new(dynamic(object)))
    }

    /// Creates this Secret with fresh keys.
    pub fn keys(secret: &Secret) -> Self {
        Self::CreateKeys(Target::of(secret), Box::new(dynamic(secret)))
    }

    /// Makes `after` of `before`; nothing when they are equal.
    pub fn patch<K: Object>(before: &K, after: &K) -> Option<Self> {
        guarded_change(before, after).map(|patch| Self::Patch(Target::of(before), patch))
    }

    /// The same with the status.
    pub fn status<K: Object>(before: &K, after: &K) -> Option<Self> {
        guarded_change(before, after).map(|patch| Self::Status(Target::of(before), patch))
    }

    /// Deletes this object; nothing when it is on its way.
    pub fn delete<K: Object>(object: &K) -> Option<Self> {
        let is_going = object.meta().deletion_timestamp.is_some();
        let uid = object.uid().unwrap_or_default();
        (!is_going).then(|| Self::Delete(Target::of(object), uid))
    }

    /// What is changed.
    #[must_use]
    pub fn target(&self) -> &Target {
        match self {
            Self::Create(target, _)
            | Self::CreateKeys(target, _)
            | Self::Patch(target, _)
            | Self::Status(target, _)
            | Self::Delete(target, _) => target,
            Self::IfClaimed(_, change) => change.target(),
        }
    }

    /// The change itself, whatever it is made by.
    #[must_use]
    pub fn bare(&self) -> &Self {
        match self {
            Self::IfClaimed(_, change) => change.bare(),
            change => change,
        }
    }
}

impl Target {
    fn of<K: Object>(object: &K) -> Self {
        Self {
            resource: ApiResource::erase::<K>(&()),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, namespace, name } = self;
        let kind = &resource.kind;
        if namespace.is_empty() {
            write!(f, "{kind} {name}")
        } else {
            write!(f, "{kind} {namespace}/{name}")
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(target, _) | Self::CreateKeys(target, _) => write!(f, "create {target}"),
            Self::Patch(target, _) => write!(f, "change {target}"),
            Self::Status(target, _) => write!(f, "write the status of {target}"),
            Self::Delete(target, _) => write!(f, "delete {target}"),
            Self::IfClaimed(_, change) => change.fmt(f),
        }
    }
}

fn dynamic<K: Serialize>(object: &K) -> DynamicObject {
    serde_json::to_value(object)
        .and_then(serde_json::from_value)
        .expect("an object of ours has metadata and string keys")
}
