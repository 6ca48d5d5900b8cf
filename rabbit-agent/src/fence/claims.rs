//! What the API says about whose namespaces a fence concerns, and who is who. Pure.

use std::collections::{BTreeMap, BTreeSet};

use api::{NnfNodeBlockStorage, nnf_node_block_storage::NnfNodeBlockStorageStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DeserializeGuard;
use storage::{
    desired::{AllocationId, Endpoint, NodeName, ObjectUid},
    observed::{Attached, NamespaceOwner},
};

use super::is_shared;
use crate::chassis::Chassis;

/// Every NnfNodeBlockStorage of the rabbit, as far as a fence must know it.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Names of those with a GFS2.
    shared: BTreeMap<ObjectUid, String>,
    /// The others: a fence has no business with what is theirs.
    others: BTreeSet<ObjectUid>,
    /// What those with a GFS2 say that they have, NQN and NSID as written.
    pub(super) devices: BTreeSet<(String, String)>,
    /// Whom they say that they are given to.
    named: BTreeSet<String>,
    /// What cannot be told of them.
    pub(super) unreadable: Vec<String>,
}

impl Claims {
    /// Reads a complete list.
    pub(super) fn of(objects: &[DeserializeGuard<NnfNodeBlockStorage>]) -> Self {
        let mut claims = Self::default();
        for object in objects {
            let (metadata, readable) = match &object.0 {
                Ok(object) => (&object.metadata, Ok(object)),
                Err(invalid) => (&invalid.metadata, Err(&invalid.error)),
            };
            claims.enter(metadata, readable);
        }
        claims
    }

    fn enter(&mut self, metadata: &ObjectMeta, object: Result<&NnfNodeBlockStorage, &String>) {
        let name = metadata.name.clone().unwrap_or_default();
        let Ok(uid) = metadata.uid.as_deref().unwrap_or_default().parse() else {
            self.unreadable.push(format!("NnfNodeBlockStorage {name} has no uid"));
            return;
        };
        if !is_shared(metadata) {
            self.others.insert(uid);
            return;
        }
        match object {
            Ok(object) => {
                let asked =
                    object.spec.allocations.iter().flat_map(|allocation| &allocation.access);
                self.named.extend(asked.cloned());
                object.status.iter().for_each(|status| self.add_devices(status));
            }
            Err(why) => {
                self.unreadable.push(format!("NnfNodeBlockStorage {name} cannot be read: {why}"));
            }
        }
        self.shared.insert(uid, name);
    }

    fn add_devices(&mut self, status: &NnfNodeBlockStorageStatus) {
        for allocation in &status.allocations {
            self.named.extend(allocation.accesses.keys().cloned());
            let devices = allocation.devices.iter();
            self.devices
                .extend(devices.map(|device| (device.nqn.clone(), device.namespace_id.clone())));
        }
    }

    /// The allocation that a fence takes a namespace from, if it is ours to take: one of a GFS2, or one that no object claims,
    /// of which nobody can say that it is not.
    pub(super) fn concerned(&self, owner: &NamespaceOwner) -> Option<AllocationId> {
        match owner {
            NamespaceOwner::Ours(id)
            | NamespaceOwner::Partial(id)
            | NamespaceOwner::Replaced(id) => (!self.others.contains(&id.owner)).then_some(*id),
            NamespaceOwner::Unknown | NamespaceOwner::Foreign(_) => None,
        }
    }

    /// Whether a namespace is certainly something else than a GFS2.
    pub(super) fn is_of_others(&self, owner: &NamespaceOwner) -> bool {
        match owner {
            NamespaceOwner::Ours(id)
            | NamespaceOwner::Partial(id)
            | NamespaceOwner::Replaced(id) => self.others.contains(&id.owner),
            NamespaceOwner::Unknown | NamespaceOwner::Foreign(_) => false,
        }
    }

    /// Whether any GFS2 is, or was last told to be, given to `node`.
    pub(super) fn name(&self, node: &NodeName) -> bool {
        self.named.contains(node.as_str())
    }
}

/// The node that is fenced, and everybody else, by the places that they have now: what the drives were told when they were
/// given access may be older.
#[derive(Debug)]
pub(super) struct Who {
    pub(super) node: NodeName,
    /// Who is where.
    owners: BTreeMap<Endpoint, NodeName>,
    pub(super) is_of_the_chassis: bool,
}

impl Who {
    /// Who `node` is in this chassis.
    pub(super) fn of(node: &NodeName, chassis: &Chassis) -> Self {
        let computes = chassis.slots().into_iter();
        let mut owners: BTreeMap<_, _> =
            computes.map(|(slot, name)| (Endpoint::Compute(slot), name)).collect();
        let is_of_the_chassis = owners.values().any(|owner| owner == node);
        owners.insert(Endpoint::Rabbit, chassis.rabbit().clone());
        Self { node: node.clone(), owners, is_of_the_chassis }
    }

    /// Whether `host` is the node itself: by the name that it was given access under, or by its place.
    pub(super) fn is(&self, host: &Attached) -> bool {
        let owner = host.endpoint.and_then(|endpoint| self.owners.get(&endpoint));
        host.node == self.node || owner == Some(&self.node)
    }

    /// Whether `host` may be the node: one whose name or place the chassis does not know may be anybody.
    pub(super) fn may_be(&self, host: &Attached) -> bool {
        self.is(host) || !(self.knows_the_name(host) && self.knows_the_place(host))
    }

    fn knows_the_name(&self, host: &Attached) -> bool {
        let is_place = host.endpoint.is_some_and(|endpoint| endpoint.name() == host.node);
        is_place || self.owners.values().any(|owner| *owner == host.node)
    }

    fn knows_the_place(&self, host: &Attached) -> bool {
        host.endpoint.is_none_or(|endpoint| self.owners.contains_key(&endpoint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn at(number: u8, name: &str) -> Attached {
        let endpoint = number.checked_sub(1).map_or(Endpoint::Rabbit, Endpoint::Compute);
        Attached { endpoint: Some(endpoint), node: name.parse().unwrap() }
    }

    #[test]
    fn a_node_is_known_by_its_name_and_by_its_place() {
        let who = Who::of(&"compute-03".parse().unwrap(), &samples::chassis());
        for (host, is, may_be) in [
            (at(7, "compute-03"), true, true),
            (at(7, "endpoint-7"), true, true),
            (at(2, "compute-02"), false, false),
            (at(2, "endpoint-2"), false, false),
            (at(0, "rabbit-1"), false, false),
            (at(0, "endpoint-0"), false, false),
            // An empty slot, and a name that was given up.
            (at(5, "endpoint-5"), false, true),
            (at(2, "compute-77"), false, true),
            // They were moved since: the one who is there now, the one who was, and one whose slot is empty now.
            (at(7, "compute-02"), true, true),
            (at(2, "compute-03"), true, true),
            (at(2, "compute-01"), false, false),
            (at(5, "compute-02"), false, true),
        ] {
            assert_eq!((who.is(&host), who.may_be(&host)), (is, may_be), "{host}");
        }
        assert!(who.is_of_the_chassis);
        assert!(!Who::of(&"compute-77".parse().unwrap(), &samples::chassis()).is_of_the_chassis);
    }

    #[test]
    fn a_host_of_file_drives_is_known_by_its_name_alone() {
        let who = Who::of(&"compute-03".parse().unwrap(), &samples::chassis());
        for (name, is, may_be) in [
            ("compute-03", true, true),
            ("compute-02", false, false),
            ("rabbit-1", false, false),
            ("compute-77", false, true),
        ] {
            let host = Attached::from(name.parse::<NodeName>().unwrap());
            assert_eq!((who.is(&host), who.may_be(&host)), (is, may_be), "{host}");
        }
    }
}
