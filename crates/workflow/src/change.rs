//! Changes of objects: the steps of a plan. Each change concerns one object, and none depends on another change
//! of the same plan.

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

/// Kind, namespace and name of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub resource: ApiResource,
    /// Empty for kinds that are in no namespace.
    pub namespace: String,
    pub name: String,
}

/// One change of one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Create(Target, Box<DynamicObject>),
    /// Create a Secret with new MPI keys. If the Secret exists already, the change has succeeded: the Secret's name
    /// contains the number of the attempt, so the existing Secret belongs to the same attempt.
    CreateKeys(Target, Box<DynamicObject>),
    /// Patch the object, except its status. The API refuses the patch if the object has changed since the plan.
    Patch(Target, Patch),
    /// Patch the object's status. The API refuses the patch if the object has changed since the plan.
    Status(Target, Patch),
    /// Delete the object if it still has this uid.
    Delete(Target, String),
    /// Make this change only if the ContainerRun in the API still has the claim that the plan saw.
    IfClaimed(ClaimRef, Box<Change>),
}

/// The claim of a ContainerRun, as a plan saw it. The claim names the coordinator that may change the run's containers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimRef {
    /// Namespace of the ContainerRun.
    pub namespace: String,
    /// Name of the ContainerRun.
    pub name: String,
    /// Uid of the ContainerRun: a later ContainerRun of the same name is another run.
    pub uid: String,
    /// Name of the coordinator that has the claim.
    pub holder: String,
    /// Number of the claim: how often this run has been claimed.
    pub epoch: i64,
}

impl Change {
    /// Plans the creation of an object.
    pub fn create<K: Object>(object: &K) -> Self {
        Self::Create(Target::from_object(object), Box::new(to_dynamic(object)))
    }

    /// Plans the creation of a Secret; the executor generates its keys.
    pub fn create_keys(secret: &Secret) -> Self {
        Self::CreateKeys(Target::from_object(secret), Box::new(to_dynamic(secret)))
    }

    /// Plans the patch from `before` to `after`; `None` when they are equal.
    pub fn patch<K: Object>(before: &K, after: &K) -> Option<Self> {
        guarded_change(before, after).map(|patch| Self::Patch(Target::from_object(before), patch))
    }

    /// Plans the patch of the status from `before` to `after`; `None` when they are equal.
    pub fn status<K: Object>(before: &K, after: &K) -> Option<Self> {
        guarded_change(before, after).map(|patch| Self::Status(Target::from_object(before), patch))
    }

    /// Plans the deletion of an object; `None` when it is being deleted already.
    pub fn delete<K: Object>(object: &K) -> Option<Self> {
        let is_going = object.meta().deletion_timestamp.is_some();
        let uid = object.uid().unwrap_or_default();
        (!is_going).then(|| Self::Delete(Target::from_object(object), uid))
    }

    /// Returns the object that is changed.
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

    /// Returns the change without the condition on a claim.
    #[must_use]
    pub fn inner(&self) -> &Self {
        match self {
            Self::IfClaimed(_, change) => change.inner(),
            change => change,
        }
    }
}

impl Target {
    pub(crate) fn from_object<K: Object>(object: &K) -> Self {
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

fn to_dynamic<K: Serialize>(object: &K) -> DynamicObject {
    serde_json::to_value(object)
        .and_then(serde_json::from_value)
        .expect("an object of ours has metadata and string keys")
}
