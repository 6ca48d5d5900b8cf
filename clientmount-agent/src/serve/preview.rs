//! Plans for ClientMounts, and changes nothing.

use agent::{
    desired::{MountUnits, ObjectError, desired, no_references},
    reconcile::{self, operator_text},
    site::Site,
};
use api::{ClientMount, NnfStorageProfile, RabbitLabels};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::ResourceExt;
use proto::v1::{ObjectName, ObjectPlan};
use serde::de::DeserializeOwned;
use serde_json::Value;
use storage::Converger;
use tonic::Status;

use crate::view::Viewed;

pub(super) const NO_PROFILE: &str = "no NnfStorageProfile was given: add the profile that the ClientMount's labels name to the files, or apply it first";

const ONLY_CLIENT_MOUNTS: &str = "the agent of a compute plans only for ClientMounts: run warren plan on the rabbit, or name the socket of its rabbit-agent with --agent";

/// Objects that a request gives, for example from files.
#[derive(Debug, Default)]
pub(super) struct Given {
    mounts: Vec<ClientMount>,
    profiles: Vec<NnfStorageProfile>,
}

impl Given {
    /// Decodes objects; with `deletes`, as objects that are being deleted.
    pub(super) fn decode(objects: &[Vec<u8>], deletes: bool) -> Result<Self, Status> {
        let mut given = Self::default();
        for json in objects {
            let value: Value = decode(json)?;
            match value["kind"].as_str() {
                Some("ClientMount") => given.mounts.push(decode(json)?),
                Some("NnfStorageProfile") => given.profiles.push(decode(json)?),
                // Only a rabbit's agent reads the slots of the computes.
                Some("SystemConfiguration") => {}
                kind => return Err(other_kind(kind.unwrap_or("an object without a kind"))),
            }
        }
        if deletes {
            let now = Time(Timestamp::now());
            given.mounts.iter_mut().for_each(|mount| {
                mount.metadata.deletion_timestamp.get_or_insert_with(|| now.clone());
            });
        }
        Ok(given)
    }

    /// Returns the plan for each ClientMount.
    pub(super) fn plans(&self, converger: &Converger, site: &Site) -> Vec<ObjectPlan> {
        let plan_one = |mount: &ClientMount| {
            let mut mount = mount.clone();
            mount.metadata.namespace.get_or_insert_with(|| site.node.to_string());
            let mount = &mount;
            let profile = self.profile(mount).ok_or(NO_PROFILE);
            let units = desired(mount, profile, &no_references, site);
            plan(converger, (&mount.namespace().unwrap_or_default(), &mount.name_any()), units)
        };
        self.mounts.iter().map(plan_one).collect()
    }

    fn profile(&self, mount: &ClientMount) -> Option<&NnfStorageProfile> {
        let pinned = mount.pinned_profile()?;
        self.profiles.iter().find(|profile| {
            profile.name_any() == pinned.name
                && profile.namespace().as_deref().unwrap_or("default") == pinned.namespace
        })
    }
}

fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, Status> {
    serde_json::from_slice(json).map_err(|error| {
        Status::invalid_argument(format!("objects: {error}: send each object as JSON"))
    })
}

fn other_kind(kind: &str) -> Status {
    Status::invalid_argument(format!("objects: {kind}: {ONLY_CLIENT_MOUNTS}"))
}

/// Drops the objects that `names` does not name; an empty list names all objects.
pub(super) fn retain_named(
    objects: &mut Vec<(String, Viewed)>,
    names: &[ObjectName],
) -> Result<(), Status> {
    if names.is_empty() {
        return Ok(());
    }
    for ObjectName { kind, name } in names {
        if !kind.eq_ignore_ascii_case("ClientMount") {
            return Err(other_kind(kind));
        }
        if !objects.iter().any(|(_, viewed)| viewed.received.name == *name) {
            return Err(Status::not_found(format!(
                "the agent knows no ClientMount {name}: check its name with warren mounts"
            )));
        }
    }
    objects.retain(|(_, viewed)| names.iter().any(|named| named.name == viewed.received.name));
    Ok(())
}

/// Returns the plan for one object, from its units or the reason why it has none.
pub(super) fn plan(
    converger: &Converger,
    (namespace, name): (&str, &str),
    units: Result<MountUnits, ObjectError>,
) -> ObjectPlan {
    let planned = units.map_err(|error| error.to_string()).and_then(|units| {
        // Plans are for operators, so a refusal has the text for operators.
        reconcile::plan(converger, &units).map_err(|failures| operator_text(&failures))
    });
    let (steps, rejection) = match planned {
        Ok(steps) => (steps.iter().map(ToString::to_string).collect(), String::new()),
        Err(rejection) => (Vec::new(), rejection),
    };
    ObjectPlan {
        kind: "ClientMount".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        steps,
        rejection,
        waiting: String::new(),
    }
}
