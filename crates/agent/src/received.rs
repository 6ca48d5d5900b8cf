//! One ClientMount that the agent has received, from a coordinator or the API, and the report on the ClientMount.

use api::{ClientMount, ClientMountStatus, NnfStorageProfile, NoProfile};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use proto::v1::{DesiredMount, MountReport};
use storage::desired::MountPoint;

use crate::{
    desired::{Goal, MountUnits, ObjectError, no_references, units},
    error::Failure,
    reconcile::Outcome,
    site::Site,
    targets::Requester,
};

/// The last version of a ClientMount that the agent received, with the profile that its labels name.
#[derive(Debug, Clone)]
pub struct ReceivedMount {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// `metadata.resourceVersion` of the object.
    resource_version: String,
    /// The object, or the reason why it cannot be read.
    client_mount: Result<ClientMount, String>,
    profile: Result<NnfStorageProfile, NoProfile>,
    /// Length of `spec.mounts`, which is known even if the rest of the object cannot be read.
    pub count: usize,
}

/// The outcome of the work on one object, as the agent reports it.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// `metadata.resourceVersion` of the object that the agent received.
    pub resource_version: String,
    pub status: ClientMountStatus,
    /// True if no mount of the object is left on the node, so that the coordinator can remove the object's finalizer.
    pub released: bool,
}

impl From<&Report> for MountReport {
    fn from(report: &Report) -> Self {
        Self {
            namespace: report.namespace.clone(),
            name: report.name.clone(),
            uid: report.uid.clone(),
            observed_resource_version: report.resource_version.clone(),
            status: serde_json::to_vec(&report.status).expect("a status has only string keys"),
            released: report.released,
        }
    }
}

impl ReceivedMount {
    /// Creates the value from a ClientMount of the API.
    pub fn new(client_mount: ClientMount, profile: Result<NnfStorageProfile, NoProfile>) -> Self {
        Self {
            namespace: client_mount.namespace().unwrap_or_default(),
            name: client_mount.name_any(),
            uid: client_mount.uid().unwrap_or_default(),
            resource_version: client_mount.resource_version().unwrap_or_default(),
            count: client_mount.spec.mounts.len(),
            client_mount: Ok(client_mount),
            profile,
        }
    }

    /// Creates the value from an object of the API that cannot be read as a ClientMount.
    pub fn unreadable(metadata: &ObjectMeta, why: String) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            client_mount: Err(why),
            profile: Err(NoProfile::Missing(String::new())),
            count: 0,
        }
    }

    /// Decodes a ClientMount from a coordinator's message.
    pub fn decode(message: DesiredMount) -> Self {
        let client_mount: Result<ClientMount, _> = serde_json::from_slice(&message.client_mount);
        let count = match &client_mount {
            Ok(object) => object.spec.mounts.len(),
            Err(_) => count_mounts(&message.client_mount),
        };
        Self {
            client_mount: client_mount.map_err(|error| error.to_string()),
            profile: profile(&message),
            namespace: message.namespace,
            name: message.name,
            uid: message.uid,
            resource_version: message.resource_version,
            count,
        }
    }

    /// Creates the value from the record of an earlier agent, which does not contain the profile.
    pub fn from_record(version: ClientMount) -> Self {
        let why = "the object was deleted, and its NnfStorageProfile is not known";
        Self::new(version, Err(NoProfile::Missing(why.to_owned())))
    }

    /// Returns the units of work of this object. If the API no longer has the object (`gone`), returns the units that
    /// unmount all of its mounts.
    pub fn units(&self, gone: bool, site: &Site) -> Result<MountUnits, ObjectError> {
        let object =
            self.client_mount.as_ref().map_err(|why| ObjectError::Unreadable(why.clone()))?;
        let goal = if gone { Goal::Unmounted } else { Goal::of(object)? };
        let profile = self.profile.as_ref().map_err(NoProfile::text);
        let mut units = units(object, goal, profile, &no_references, site)?;
        // The mounts of an object that still exists stay while the API forbids the agent to read the profile. An object
        // that is gone is unmounted without the profile.
        if let (false, Err(NoProfile::Forbidden(why))) = (gone, &self.profile) {
            units.profile_lost = Some(ObjectError::ProfileForbidden(why.clone()));
        }
        Ok(units)
    }

    /// Returns an earlier version of the object, together with the current profile.
    pub fn earlier_version(&self, version: &ClientMount) -> Self {
        let count = version.spec.mounts.len();
        Self { client_mount: Ok(version.clone()), count, ..self.clone() }
    }

    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }

    /// Returns the object; `None` if it cannot be read.
    pub fn object(&self) -> Option<&ClientMount> {
        self.client_mount.as_ref().ok()
    }

    /// Returns whether the object is being deleted.
    pub fn deleted(&self) -> bool {
        self.object().is_some_and(|object| object.metadata.deletion_timestamp.is_some())
    }

    /// Returns the goal to report if the object has no units of work.
    pub fn goal(&self) -> Goal {
        self.object().and_then(|object| Goal::of(object).ok()).unwrap_or(Goal::Unmounted)
    }

    /// Returns the object as a requester, that is, as an object that asks for mount targets; `None` if the object
    /// cannot be read.
    pub fn requester(&self) -> Option<Requester> {
        self.object().map(Requester::new)
    }

    /// Returns the outcome for the case that the agent does not work on the object, because of this failure.
    pub fn refuse(&self, failure: Failure) -> Outcome {
        Outcome::refused(self.goal(), self.count, failure)
    }

    /// Returns every path at which a mount of this object may exist; `None` if the agent does not know
    /// all of these paths.
    pub fn possible_paths(
        &self,
        units: Option<&MountUnits>,
        site: &Site,
    ) -> Option<Vec<MountPoint>> {
        let object = self.object()?;
        let mut paths: Vec<_> =
            units.into_iter().flat_map(MountUnits::mount_points).cloned().collect();
        for (index, info) in object.spec.mounts.iter().enumerate() {
            // No path is returned for a mount whose path is unknown: the clean-up unmounts it.
            let is_settled = |units: &MountUnits| {
                units.mounts.get(index).is_some_and(Result::is_ok) || units.has_unknown_path(index)
            };
            if units.is_some_and(is_settled) {
                continue;
            }
            if info.mount_path.contains('$') {
                return None;
            }
            // Leaves out an invalid path: nothing was ever mounted there.
            paths.extend(MountPoint::parse(&info.mount_path, &site.roots));
        }
        Some(paths)
    }

    /// Returns the report on this outcome.
    pub fn report(&self, site: &Site, outcome: &Outcome) -> Report {
        Report {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
            status: crate::report::status(&site.node, outcome),
            released: self.deleted() && outcome.goal == Goal::Unmounted && outcome.is_done(),
        }
    }
}

fn profile(message: &DesiredMount) -> Result<NnfStorageProfile, NoProfile> {
    if message.profile_unread {
        return Err(NoProfile::Forbidden(message.profile_missing.clone()));
    }
    if !message.profile_missing.is_empty() {
        return Err(NoProfile::Missing(message.profile_missing.clone()));
    }
    if message.profile.is_empty() {
        let why = "the coordinator sent no NnfStorageProfile: create the one that the labels name";
        return Err(NoProfile::Missing(why.to_owned()));
    }
    serde_json::from_slice(&message.profile).map_err(|error| {
        NoProfile::Missing(format!("the NnfStorageProfile cannot be read: {error}"))
    })
}

fn count_mounts(json: &[u8]) -> usize {
    let value: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
    value.pointer("/spec/mounts").and_then(serde_json::Value::as_array).map_or(0, Vec::len)
}
