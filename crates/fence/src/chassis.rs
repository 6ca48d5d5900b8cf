//! The part of the SystemConfiguration that concerns one rabbit: which host is in which slot.
//!
//! A compute's endpoint is the `index` that the SystemConfiguration gives the compute, never its position in the list:
//! if the list leaves out empty slots, positions would attach namespaces to the wrong host.

use std::collections::BTreeMap;

use api::SystemConfiguration;
use storage::desired::{Access, Endpoint, NodeName};
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChassisError {
    #[error(
        "SystemConfiguration default/default does not exist: create it with the computes of {rabbit}"
    )]
    NoSystemConfiguration { rabbit: NodeName },
    #[error(
        "SystemConfiguration default/default has no storage node {rabbit} of type Rabbit: add it"
    )]
    RabbitNotListed { rabbit: NodeName },
    #[error(
        "{compute:?} is not a compute of {rabbit} in SystemConfiguration default/default: add it to computesAccess, or correct the name"
    )]
    ComputeNotListed { compute: String, rabbit: NodeName },
    #[error(
        "{compute} has computesAccess index {index} in SystemConfiguration default/default: use a slot from 0 to 15"
    )]
    NoSuchSlot { compute: NodeName, index: i64 },
    #[error(
        "{compute} and {other} share computesAccess index {index} in SystemConfiguration default/default: give each its own"
    )]
    SlotShared { compute: NodeName, other: String, index: u8 },
}

/// Compute slots in a chassis, `Compute 0` to `Compute 15`.
pub const SLOTS: u8 = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chassis {
    rabbit: NodeName,
    known: Known,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    Nothing,
    NotThisRabbit,
    Computes(Vec<(String, i64)>),
}

impl Chassis {
    /// Returns the chassis of `rabbit`. An entry of the list is checked only when it is used.
    pub fn new(rabbit: &NodeName, system: Option<&SystemConfiguration>) -> Self {
        let known = match system {
            None => Known::Nothing,
            Some(system) => system
                .spec
                .storage_nodes
                .iter()
                .find(|node| node.name == rabbit.as_str() && node.kind == "Rabbit")
                .map_or(Known::NotThisRabbit, |node| {
                    Known::Computes(
                        node.computes_access
                            .iter()
                            .map(|compute| (compute.name.clone(), compute.index))
                            .collect(),
                    )
                }),
        };
        Self { rabbit: rabbit.clone(), known }
    }

    pub fn rabbit(&self) -> &NodeName {
        &self.rabbit
    }

    /// Returns the endpoint of host `name`. The rabbit's own endpoint needs no SystemConfiguration.
    pub fn access(&self, name: &str) -> Result<Access, ChassisError> {
        if name == self.rabbit.as_str() {
            return Ok(Access { endpoint: Endpoint::Rabbit, node: self.rabbit.clone() });
        }
        let rabbit = || self.rabbit.clone();
        let computes = match &self.known {
            Known::Nothing => return Err(ChassisError::NoSystemConfiguration { rabbit: rabbit() }),
            Known::NotThisRabbit => return Err(ChassisError::RabbitNotListed { rabbit: rabbit() }),
            Known::Computes(computes) => computes,
        };
        let unlisted =
            || ChassisError::ComputeNotListed { compute: name.to_owned(), rabbit: rabbit() };
        let (_, index) = computes.iter().find(|(listed, _)| listed == name).ok_or_else(unlisted)?;
        let node: NodeName = name.parse().map_err(|_| unlisted())?;
        let slot = u8::try_from(*index).ok().filter(|slot| *slot < SLOTS);
        let Some(slot) = slot else {
            return Err(ChassisError::NoSuchSlot { compute: node, index: *index });
        };
        let mut sharing = computes.iter().filter(|(listed, at)| at == index || listed == name);
        match (sharing.next(), sharing.next()) {
            (Some(first), Some(second)) => {
                let other = if first.0 == name { &second.0 } else { &first.0 };
                Err(ChassisError::SlotShared { compute: node, other: other.clone(), index: slot })
            }
            _ => Ok(Access { endpoint: Endpoint::Compute(slot), node }),
        }
    }

    /// Returns the computes that share their slot with no other compute, by slot.
    pub fn slots(&self) -> BTreeMap<u8, NodeName> {
        let Known::Computes(computes) = &self.known else { return BTreeMap::new() };
        let slots = computes.iter().filter_map(|(name, _)| match self.access(name).ok()? {
            Access { endpoint: Endpoint::Compute(slot), node } => Some((slot, node)),
            Access { endpoint: Endpoint::Rabbit, .. } => None,
        });
        slots.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chassis(computes: &[(&str, i64)]) -> Chassis {
        let computes: Vec<_> =
            computes.iter().map(|(name, index)| json!({"name": name, "index": index})).collect();
        let system = serde_json::from_value(json!({
            "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "SystemConfiguration",
            "metadata": {"name": "default", "namespace": "default"},
            "spec": {"portsCooldownInSeconds": 0, "storageNodes": [
                {"type": "Rabbit", "name": "rabbit-2", "computesAccess": [{"name": "compute-99", "index": 0}]},
                {"type": "Rabbit", "name": "rabbit-1", "computesAccess": computes}]}
        }));
        Chassis::new(&"rabbit-1".parse().unwrap(), Some(&system.unwrap()))
    }

    #[test]
    fn a_gap_in_the_slots_shifts_no_compute() {
        let chassis = chassis(&[("compute-01", 0), ("compute-02", 1), ("compute-03", 6)]);
        let endpoint = |name| chassis.access(name).unwrap().endpoint;
        assert_eq!(endpoint("compute-03"), Endpoint::Compute(6));
        assert_eq!(endpoint("compute-03").number(), 7);
        assert_eq!(endpoint("rabbit-1"), Endpoint::Rabbit);
        assert_eq!(chassis.slots().into_keys().collect::<Vec<_>>(), [0, 1, 6]);
    }

    #[test]
    fn a_compute_of_another_rabbit_is_rejected_by_name() {
        let error = chassis(&[("compute-01", 0)]).access("compute-99").unwrap_err().to_string();
        assert!(error.contains("\"compute-99\"") && error.contains("rabbit-1"), "{error}");
    }

    #[test]
    fn invalid_and_shared_slots_are_rejected() {
        let chassis = chassis(&[("a", 16), ("b", -1), ("c", 3), ("d", 3), ("e", 4), ("e", 5)]);
        for name in ["a", "b"] {
            assert!(matches!(chassis.access(name), Err(ChassisError::NoSuchSlot { .. })), "{name}");
        }
        for (name, other) in [("c", "d"), ("d", "c"), ("e", "e")] {
            let Err(ChassisError::SlotShared { other: reported, .. }) = chassis.access(name) else {
                panic!("{name}")
            };
            assert_eq!(reported, other);
        }
        assert!(chassis.slots().is_empty());
    }

    #[test]
    fn without_a_system_configuration_only_the_rabbit_is_known() {
        let rabbit = "rabbit-1".parse().unwrap();
        let chassis = Chassis::new(&rabbit, None);
        assert!(chassis.access("rabbit-1").is_ok());
        assert_eq!(
            chassis.access("compute-01"),
            Err(ChassisError::NoSystemConfiguration { rabbit })
        );
    }
}
