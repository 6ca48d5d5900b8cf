//! One ClientMount: the version that the agent received, and the next write and read of the API. Pure.

use api::{
    ClientMount, ClientMountStatus, NnfStorageProfile, NoProfile, RabbitLabels,
    client_mount::MountState,
    names::{finalizer, label},
};
use controller::{Fingerprint, ObjectKey, has_finalizer};
use kube::ResourceExt;
use storage::desired::NodeName;

use agent::{
    desired::{Goal, ObjectError},
    error::Failure,
    reconcile::Outcome,
};

/// A profile as the API gave it, or why there is none.
pub(in crate::direct) type Profile = Result<NnfStorageProfile, NoProfile>;

/// The next write to an object.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::direct) enum Write {
    AddFinalizer,
    Status(ClientMountStatus),
    RemoveFinalizer,
}

#[derive(Debug, Default)]
pub(super) struct Entry {
    /// The profile that was read last, and the fingerprint of the object that it was read for.
    pub(super) profile: Option<(Fingerprint, Profile)>,
    /// The last version that was sent to the agent.
    pub(super) sent: Option<Sent>,
    /// Whether another client overwrote the reported status. If so, the agent receives the object again.
    pub(super) overwritten: bool,
    pub(super) pending_status: Option<PendingStatus>,
}

/// A version of an object that was sent to the agent.
#[derive(Debug, PartialEq)]
pub(super) struct Sent {
    pub(super) uid: String,
    pub(super) fingerprint: Fingerprint,
    /// resourceVersion of the profile, or why there is none.
    pub(super) profile: Result<Option<String>, NoProfile>,
    pub(super) resource_version: String,
}

/// The status that the object is to have.
#[derive(Debug)]
pub(super) struct PendingStatus {
    pub(super) status: ClientMountStatus,
    /// Whether the node has unmounted the object completely.
    pub(super) released: bool,
    /// resourceVersion of the object that the agent reported on; empty for a status that does not come from the agent.
    pub(super) resource_version: String,
    /// Fingerprint of the object that the agent reported on; `None` for a refusal, on which the agent does not report.
    pub(super) fingerprint: Option<Fingerprint>,
    /// Set once the API accepted the status. The status is not sent again, even if the API stored it without fields
    /// that its schema lacks.
    pub(super) accepted: bool,
}

/// Whether this node may work on an object: the object must carry the finalizer, so that it cannot disappear while the
/// node has mounts of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// The object's `spec.node` names another node, and it does not carry the finalizer.
    OtherNode,
    /// The object is being deleted and does not carry the finalizer: nothing of it is on this node.
    Released,
    /// The object does not carry the finalizer, so it may be deleted at any time: the agent adds the finalizer first.
    WithoutFinalizer,
    WithFinalizer,
}

impl Hold {
    pub(super) fn new(object: &ClientMount) -> Self {
        let is_deleted = object.metadata.deletion_timestamp.is_some();
        let is_foreign = object.namespace().as_ref() != Some(&object.spec.node);
        match has_finalizer(object, finalizer::CLIENT_MOUNT) {
            true => Self::WithFinalizer,
            false if is_deleted => Self::Released,
            false if is_foreign => Self::OtherNode,
            false => Self::WithoutFinalizer,
        }
    }
}

/// Returns a fingerprint of the fields that a node acts on. Two versions of an object with the same fingerprint
/// request the same work of the node.
pub(super) fn fingerprint_of(object: &ClientMount) -> Fingerprint {
    Fingerprint::new(object).without_finalizers()
}

fn profile_of(object: &ClientMount) -> Option<ObjectKey> {
    let name = object.label(label::PINNED_PROFILE_NAME)?;
    Some((object.label(label::PINNED_PROFILE_NAMESPACE)?.to_owned(), name.to_owned()))
}

impl Sent {
    /// Returns whether the agent already has the object and the profile of `newer`.
    pub(super) fn covers(&self, newer: &Self) -> bool {
        (&self.uid, &self.fingerprint, &self.profile)
            == (&newer.uid, &newer.fingerprint, &newer.profile)
    }
}

impl Entry {
    /// Returns the profile of this version of the object; `None` until it was read.
    pub(super) fn profile(&self, object: &ClientMount) -> Option<Profile> {
        if profile_of(object).is_none() {
            // The agent's report names the missing label.
            return Some(Err(NoProfile::Missing(String::new())));
        }
        let known =
            self.profile.as_ref().filter(|(fingerprint, _)| *fingerprint == fingerprint_of(object));
        known.map(|(_, profile)| profile.clone())
    }

    /// Returns the profile to read; `None` if no read is needed. A missing profile is read again, since it may still
    /// appear, unless the object is being deleted: a deleted object is unmounted without the profile.
    pub(super) fn read(&self, object: &ClientMount) -> Option<ObjectKey> {
        let is_needed = match Hold::new(object) {
            Hold::OtherNode | Hold::Released => false,
            Hold::WithoutFinalizer | Hold::WithFinalizer => match self.profile(object) {
                None | Some(Err(NoProfile::Forbidden(_))) => true,
                Some(Err(NoProfile::Missing(_))) => object.metadata.deletion_timestamp.is_none(),
                Some(Ok(_)) => false,
            },
        };
        profile_of(object).filter(|_| is_needed)
    }

    /// Returns the next write to the object, if any.
    pub(super) fn write(&mut self, object: &ClientMount) -> Option<Write> {
        match Hold::new(object) {
            Hold::Released => return None,
            Hold::WithoutFinalizer => return Some(Write::AddFinalizer),
            Hold::OtherNode | Hold::WithFinalizer => {}
        }
        let pending = self.pending_status.as_mut()?;
        // The pending status is for an earlier version of the object. The agent will report on the current version,
        // which it receives once the profile was read.
        if pending
            .fingerprint
            .as_ref()
            .is_some_and(|fingerprint| *fingerprint != fingerprint_of(object))
        {
            return None;
        }
        let is_deleted = object.metadata.deletion_timestamp.is_some();
        let is_release = pending.released && is_deleted;
        // Removing the last finalizer deletes the object, so a status that is written just before is useless.
        let is_last = object.finalizers().iter().all(|name| name == finalizer::CLIENT_MOUNT);
        pending.accepted |= object.status.as_ref() == Some(&pending.status);
        if pending.accepted || is_release && is_last {
            return is_release.then_some(Write::RemoveFinalizer);
        }
        Some(Write::Status(pending.status.clone()))
    }
}

/// Returns whether an object's status says that everything is unmounted although the object requests mounts.
pub(super) fn says_unmounted_too_early(object: &ClientMount) -> bool {
    let status = object.status.as_ref();
    object.metadata.deletion_timestamp.is_none()
        && object.spec.desired_state == MountState::Mounted
        && status.is_some_and(|status| status.says_unmounted(object.spec.mounts.len()))
}

/// Returns a status that no longer says that everything is unmounted.
pub(super) fn retract_status(object: &ClientMount) -> PendingStatus {
    PendingStatus {
        status: ClientMountStatus::for_mounting(object.spec.mounts.len()),
        released: false,
        resource_version: String::new(),
        fingerprint: Some(fingerprint_of(object)),
        accepted: false,
    }
}

/// Returns the status that refuses an object whose `spec.node` names another node.
pub(super) fn refusal(node: &NodeName, object: &ClientMount) -> PendingStatus {
    let namespace = object.namespace().unwrap_or_default();
    let error = ObjectError::OtherNode { node: object.spec.node.clone(), namespace };
    let (goal, count) = (Goal::of(object).unwrap_or(Goal::Unmounted), object.spec.mounts.len());
    let outcome = Outcome::refused(goal, count, Failure::from(&error));
    PendingStatus {
        status: agent::report::status(node, &outcome),
        released: false,
        resource_version: String::new(),
        fingerprint: None,
        accepted: false,
    }
}
