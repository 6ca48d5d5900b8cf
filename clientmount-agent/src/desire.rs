//! A DesiredMount of the coordinator, decoded once.

use api::{ClientMount, NnfStorageProfile};
use proto::v1::{DesiredMount, MountReport};
use storage::desired::MountPoint;

use crate::{
    claims::Claimant,
    desired::{Goal, MountUnits, ObjectError, no_references, units},
    error::Failure,
    reconcile::Outcome,
    site::Site,
};

/// One object as the coordinator told it last.
#[derive(Debug, Clone)]
pub(crate) struct Desire {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    resource_version: String,
    client_mount: Result<ClientMount, String>,
    profile: Result<NnfStorageProfile, String>,
    /// The API did not let the profile be read.
    unread: bool,
    /// Length of `spec.mounts`, also when the rest cannot be read.
    pub(crate) count: usize,
}

impl Desire {
    pub(crate) fn decode(message: DesiredMount) -> Self {
        let client_mount: Result<ClientMount, _> = serde_json::from_slice(&message.client_mount);
        let count = match &client_mount {
            Ok(object) => object.spec.mounts.len(),
            Err(_) => count_mounts(&message.client_mount),
        };
        Self {
            client_mount: client_mount.map_err(|error| error.to_string()),
            profile: profile(&message),
            unread: message.profile_unread,
            namespace: message.namespace,
            name: message.name,
            uid: message.uid,
            resource_version: message.resource_version,
            count,
        }
    }

    /// An object as an agent recorded it; its profile is not known.
    pub(crate) fn recorded(version: ClientMount) -> Self {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        Self {
            namespace: text(&version.metadata.namespace),
            name: text(&version.metadata.name),
            uid: text(&version.metadata.uid),
            resource_version: String::new(),
            count: version.spec.mounts.len(),
            profile: Err("the object is gone, and its NnfStorageProfile with it".to_owned()),
            unread: false,
            client_mount: Ok(version),
        }
    }

    /// The units of this object; when it is `gone`, those that leave nothing of it.
    pub(crate) fn units(&self, gone: bool, site: &Site) -> Result<MountUnits, ObjectError> {
        let object =
            self.client_mount.as_ref().map_err(|why| ObjectError::Unreadable(why.clone()))?;
        let goal = if gone { Goal::Unmounted } else { Goal::of(object)? };
        let profile = self.profile.as_ref().map_err(String::as_str);
        let mut units = units(object, goal, profile, &no_references, site)?;
        // Of one that is gone nobody will tell more.
        if let (true, false, Err(why)) = (self.unread, gone, &self.profile) {
            units.profile_lost = Some(ObjectError::ProfileUnread(why.clone()));
        }
        Ok(units)
    }

    /// The object as it was told earlier, with what is known of its profile now.
    pub(crate) fn earlier(&self, version: &ClientMount) -> Self {
        let count = version.spec.mounts.len();
        Self { client_mount: Ok(version.clone()), count, ..self.clone() }
    }

    /// The object, when it can be read.
    pub(crate) fn object(&self) -> Option<&ClientMount> {
        self.client_mount.as_ref().ok()
    }

    /// Whether the object is being deleted.
    pub(crate) fn deleted(&self) -> bool {
        self.client_mount.as_ref().is_ok_and(|object| object.metadata.deletion_timestamp.is_some())
    }

    /// The goal to report when there are no units.
    pub(crate) fn goal(&self) -> Goal {
        self.client_mount
            .as_ref()
            .ok()
            .and_then(|object| Goal::of(object).ok())
            .unwrap_or(Goal::Unmounted)
    }

    pub(crate) fn claimant(&self) -> Option<Claimant> {
        self.client_mount.as_ref().ok().map(Claimant::of)
    }

    /// The outcome of an object for which nothing was done.
    pub(crate) fn refused(&self, failure: Failure) -> Outcome {
        Outcome::refused(self.goal(), self.count, failure)
    }

    /// Every path at which something of this object may be mounted; `None` when that cannot be told.
    pub(crate) fn possible_paths(
        &self,
        units: Option<&MountUnits>,
        site: &Site,
    ) -> Option<Vec<MountPoint>> {
        let object = self.client_mount.as_ref().ok()?;
        let mut paths: Vec<_> =
            units.into_iter().flat_map(MountUnits::mount_points).cloned().collect();
        for (place, info) in object.spec.mounts.iter().enumerate() {
            if units.is_some_and(|units| matches!(units.mounts.get(place), Some(Ok(_)))) {
                continue;
            }
            // It wants to be nowhere: what it has is nobody's.
            if units.is_some_and(|units| units.is_untold(place)) {
                continue;
            }
            if info.mount_path.contains('$') {
                return None;
            }
            // A path that cannot be one now could not be one before.
            paths.extend(MountPoint::parse(&info.mount_path, &site.roots));
        }
        Some(paths)
    }

    pub(crate) fn report(&self, site: &Site, outcome: &Outcome) -> MountReport {
        let status = crate::report::status(&site.node, outcome);
        MountReport {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            observed_resource_version: self.resource_version.clone(),
            status: serde_json::to_vec(&status).expect("a status has only string keys"),
            released: self.deleted() && outcome.goal == Goal::Unmounted && outcome.done(),
        }
    }
}

fn profile(message: &DesiredMount) -> Result<NnfStorageProfile, String> {
    if !message.profile_missing.is_empty() {
        return Err(message.profile_missing.clone());
    }
    if message.profile.is_empty() {
        return Err(
            "the coordinator sent no NnfStorageProfile: create the one that the labels name"
                .to_owned(),
        );
    }
    serde_json::from_slice(&message.profile)
        .map_err(|error| format!("the NnfStorageProfile cannot be read: {error}"))
}

fn count_mounts(json: &[u8]) -> usize {
    let value: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
    value.pointer("/spec/mounts").and_then(serde_json::Value::as_array).map_or(0, Vec::len)
}
