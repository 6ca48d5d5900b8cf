//! Finds the objects that own the namespaces of a fence, and the host that is the fenced node. Does no I/O.

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

/// The facts about the rabbit's NnfNodeBlockStorages that a fence needs.
#[derive(Debug, Default)]
pub(super) struct FencedNamespaces {
    /// Names of the objects with a GFS2, by uid.
    shared: BTreeMap<ObjectUid, String>,
    /// Uids of the other objects. A fence leaves their namespaces alone.
    other_objects: BTreeSet<ObjectUid>,
    /// Namespaces in the statuses of objects with a GFS2: NQN and NSID as written there.
    pub(super) devices: BTreeSet<(String, String)>,
    /// Names of the hosts in specs and statuses of objects with a GFS2.
    host_names: BTreeSet<String>,
    /// The objects that may have a GFS2 but could not be read, each with the reason.
    pub(super) unreadable: Vec<String>,
}

impl FencedNamespaces {
    pub(super) fn new(objects: &[DeserializeGuard<NnfNodeBlockStorage>]) -> Self {
        let mut fenced = Self::default();
        for object in objects {
            let (metadata, readable) = match &object.0 {
                Ok(object) => (&object.metadata, Ok(object)),
                Err(invalid) => (&invalid.metadata, Err(&invalid.error)),
            };
            fenced.enter(metadata, readable);
        }
        fenced
    }

    fn enter(&mut self, metadata: &ObjectMeta, object: Result<&NnfNodeBlockStorage, &String>) {
        let name = metadata.name.clone().unwrap_or_default();
        let Ok(uid) = metadata.uid.as_deref().unwrap_or_default().parse() else {
            self.unreadable.push(format!("NnfNodeBlockStorage {name} has no uid"));
            return;
        };
        if !is_shared(metadata) {
            self.other_objects.insert(uid);
            return;
        }
        match object {
            Ok(object) => {
                let hosts =
                    object.spec.allocations.iter().flat_map(|allocation| &allocation.access);
                self.host_names.extend(hosts.cloned());
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
            self.host_names.extend(allocation.accesses.keys().cloned());
            let devices = allocation.devices.iter();
            self.devices
                .extend(devices.map(|device| (device.nqn.clone(), device.namespace_id.clone())));
        }
    }

    /// Returns the allocation of a namespace that a fence detaches: the namespace is of a GFS2, or no object owns it
    /// and it may be of a GFS2.
    pub(super) fn allocation_to_detach(&self, owner: &NamespaceOwner) -> Option<AllocationId> {
        match owner {
            NamespaceOwner::Ours(id)
            | NamespaceOwner::Partial(id)
            | NamespaceOwner::Replaced(id) => {
                (!self.other_objects.contains(&id.owner)).then_some(*id)
            }
            NamespaceOwner::Unknown | NamespaceOwner::Foreign(_) => None,
        }
    }

    /// Returns whether a namespace certainly belongs to an object without a GFS2.
    pub(super) fn belongs_to_other_storage(&self, owner: &NamespaceOwner) -> bool {
        match owner {
            NamespaceOwner::Ours(id)
            | NamespaceOwner::Partial(id)
            | NamespaceOwner::Replaced(id) => self.other_objects.contains(&id.owner),
            NamespaceOwner::Unknown | NamespaceOwner::Foreign(_) => false,
        }
    }

    /// Returns whether the spec or status of any object with a GFS2 names `node`.
    pub(super) fn names_host(&self, node: &NodeName) -> bool {
        self.host_names.contains(node.as_str())
    }
}

/// The fenced node, and the hosts that are in the slots now. The drives' ledgers (the records of their namespaces) may
/// name another host or slot: a ledger has the name and the slot that a host had when the host got access.
#[derive(Debug)]
pub(super) struct Hosts {
    pub(super) target: NodeName,
    owners: BTreeMap<Endpoint, NodeName>,
    pub(super) is_of_the_chassis: bool,
}

impl Hosts {
    pub(super) fn new(node: &NodeName, chassis: &Chassis) -> Self {
        let computes = chassis.slots().into_iter();
        let mut owners: BTreeMap<_, _> =
            computes.map(|(slot, name)| (Endpoint::Compute(slot), name)).collect();
        let is_of_the_chassis = owners.values().any(|owner| owner == node);
        owners.insert(Endpoint::Rabbit, chassis.rabbit().clone());
        Self { target: node.clone(), owners, is_of_the_chassis }
    }

    /// Returns whether `host` is the node itself: by the name under which the host got access, or by its slot.
    pub(super) fn is_target(&self, host: &Attached) -> bool {
        let owner = host.endpoint.and_then(|endpoint| self.owners.get(&endpoint));
        host.node == self.target || owner == Some(&self.target)
    }

    /// Returns whether `host` may be the node: a name or slot that is not in the chassis may stand for any host.
    pub(super) fn may_be_target(&self, host: &Attached) -> bool {
        self.is_target(host) || !(self.has_known_name(host) && self.has_known_slot(host))
    }

    fn has_known_name(&self, host: &Attached) -> bool {
        let is_slot_name = host.endpoint.is_some_and(|endpoint| endpoint.name() == host.node);
        is_slot_name || self.owners.values().any(|owner| *owner == host.node)
    }

    fn has_known_slot(&self, host: &Attached) -> bool {
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
    fn a_host_is_the_fenced_node_by_its_name_or_by_its_slot() {
        let hosts = Hosts::new(&"compute-03".parse().unwrap(), &samples::chassis());
        for (host, is, may_be) in [
            (at(7, "compute-03"), true, true),
            (at(7, "endpoint-7"), true, true),
            (at(2, "compute-02"), false, false),
            (at(2, "endpoint-2"), false, false),
            (at(0, "rabbit-1"), false, false),
            (at(0, "endpoint-0"), false, false),
            // The first host is an empty slot, and the second has a name that is no longer in the chassis.
            (at(5, "endpoint-5"), false, true),
            (at(2, "compute-77"), false, true),
            // Hosts have moved since they got access. First the fenced node is in slot 7 now, then it was in slot 2
            // before, then it never was in slot 2; last, slot 5 is empty now.
            (at(7, "compute-02"), true, true),
            (at(2, "compute-03"), true, true),
            (at(2, "compute-01"), false, false),
            (at(5, "compute-02"), false, true),
        ] {
            assert_eq!(hosts.is_target(&host), is, "{host}");
            assert_eq!(hosts.may_be_target(&host), may_be, "{host}");
        }
        assert!(hosts.is_of_the_chassis);
        assert!(!Hosts::new(&"compute-77".parse().unwrap(), &samples::chassis()).is_of_the_chassis);
    }

    #[test]
    fn a_host_of_file_drives_is_the_fenced_node_by_its_name_alone() {
        let hosts = Hosts::new(&"compute-03".parse().unwrap(), &samples::chassis());
        for (name, is, may_be) in [
            ("compute-03", true, true),
            ("compute-02", false, false),
            ("rabbit-1", false, false),
            ("compute-77", false, true),
        ] {
            let host = Attached::from(name.parse::<NodeName>().unwrap());
            assert_eq!(hosts.is_target(&host), is, "{host}");
            assert_eq!(hosts.may_be_target(&host), may_be, "{host}");
        }
    }
}
