//! Finds mistakes in a SystemConfiguration. Pure.

use std::collections::BTreeMap;

use api::{SystemConfiguration, system_configuration::StorageNode};
use containers::{names::is_label, ports};
use proto::limits::{NAME, shortened};

use super::locations::{Location, named_fields};

/// Largest index of a compute in its chassis.
const LAST_INDEX: i64 = 15;

/// Returns all mistakes, each with its field, its value and the remedy.
pub(crate) fn mistakes(configuration: &SystemConfiguration) -> Vec<String> {
    let spec = &configuration.spec;
    let wiring = spec.storage_nodes.iter().enumerate();
    let invalid_ports = ports::site_ports(spec).err().map(|fault| fault.to_string());
    let cooldown = spec.ports_cooldown_in_seconds;
    let invalid_cooldown = (cooldown < 0).then(|| {
        format!("spec.portsCooldownInSeconds is {cooldown}: write a number of seconds, 0 or more")
    });
    invalid_labels(configuration)
        .into_iter()
        .chain(repeated_names(configuration))
        .chain(wiring.flat_map(|(place, rabbit)| invalid_indices(place, rabbit)))
        .chain(invalid_ports)
        .chain(invalid_cooldown)
        .collect()
}

/// Reports names of nodes that are invalid as names of Kubernetes namespaces: each node has a namespace of its name.
fn invalid_labels(configuration: &SystemConfiguration) -> Vec<String> {
    let wrong = |(field, name, _): (String, &str, Location)| {
        let name = (!is_label(name)).then(|| shortened(format!("{name:?}"), NAME))?;
        Some(format!(
            "SystemConfiguration default/default, {field}: {name} is not a DNS label, which the node's Kubernetes namespace needs: write at most 63 lower case letters, digits and '-', with a letter or digit at both ends"
        ))
    };
    named_fields(configuration).filter_map(wrong).collect()
}

/// Reports names that two nodes share.
fn repeated_names(configuration: &SystemConfiguration) -> Vec<String> {
    let mut first: BTreeMap<&str, String> = BTreeMap::new();
    let mut repeated = Vec::new();
    for (field, name, _) in named_fields(configuration) {
        if let Some(earlier) = first.get(name) {
            let name = shortened(format!("{name:?}"), NAME);
            repeated.push(format!(
                "{field}: {name} is the value of {earlier} already: name each node once"
            ));
        } else {
            first.insert(name, field);
        }
    }
    repeated
}

/// Reports computes of a rabbit whose index is not 0 to [`LAST_INDEX`], or equals the index of another compute.
fn invalid_indices(place: usize, rabbit: &StorageNode) -> Vec<String> {
    let mut first: BTreeMap<i64, &str> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (at, compute) in rabbit.computes_access.iter().enumerate() {
        let (field, index) =
            (format!("spec.storageNodes[{place}].computesAccess[{at}].index"), compute.index);
        if !(0..=LAST_INDEX).contains(&index) {
            wrong.push(format!(
                "{field} is {index}: write the compute's index in the chassis, 0 to {LAST_INDEX}"
            ));
        } else if let Some(other) = first.insert(index, &compute.name) {
            let other = shortened(other.to_owned(), NAME);
            wrong
                .push(format!("{field} is {index}, which compute {other} has already: give each compute its own index"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn mistakes_in(spec: &Value) -> Vec<String> {
        let object = json!({
            "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "SystemConfiguration",
            "metadata": {"name": "default", "namespace": "default"}, "spec": spec,
        });
        mistakes(&from_value(object).unwrap())
    }

    fn wired(computes: &[(&str, i64)]) -> Value {
        let computes: Vec<Value> =
            computes.iter().map(|(name, index)| json!({"name": name, "index": index})).collect();
        json!({"storageNodes": [{"type": "Rabbit", "name": "rabbit-1", "computesAccess": computes}]})
    }

    #[test]
    fn each_mistake_is_named_with_its_field() {
        let many_ports = json!({"ports": [80, "9000-9010"], "portsCooldownInSeconds": 0});
        for right in [wired(&[("c-1", 0), ("c-2", 15)]), many_ports, json!({})] {
            assert!(mistakes_in(&right).is_empty(), "{right}");
        }
        let cases = [
            (wired(&[("c-1", 99)]), "spec.storageNodes[0].computesAccess[0].index is 99"),
            (wired(&[("c-1", -1)]), "computesAccess[0].index is -1"),
            (
                wired(&[("c-1", 3), ("c-2", 3)]),
                "computesAccess[1].index is 3, which compute c-1 has already",
            ),
            (
                wired(&[("c-1", 3), ("c-1", 4)]),
                "\"c-1\" is the value of spec.storageNodes[0].computesAccess[0].name already",
            ),
            (
                wired(&[("rabbit-1", 3)]),
                "\"rabbit-1\" is the value of spec.storageNodes[0].name already",
            ),
            (wired(&[("Compute_1", 3)]), "\"Compute_1\" is not a DNS label"),
            (json!({"ports": [2_147_483_648_u64]}), "\"2147483648\" is not a port"),
            (json!({"ports": ["9010-9000"]}), "\"9010-9000\" is not a port"),
            (json!({"portsCooldownInSeconds": -1}), "spec.portsCooldownInSeconds is -1"),
        ];
        for (spec, words) in cases {
            let mistakes = mistakes_in(&spec);
            assert!(mistakes.iter().any(|text| text.contains(words)), "{spec}: {mistakes:?}");
        }
    }
}
