//! What cannot be meant in a SystemConfiguration. Pure.

use std::collections::BTreeMap;

use api::{SystemConfiguration, system_configuration::StorageNode};
use containers::{names::is_label, ports};
use proto::limits::{NAME, shortened};

use super::locations::{Location, named};

/// The last port of a chassis to which a compute is wired.
const LAST_INDEX: i64 = 15;

/// All mistakes, each with its field, its value and the remedy.
pub(crate) fn mistakes(configuration: &SystemConfiguration) -> Vec<String> {
    let spec = &configuration.spec;
    let wiring = spec.storage_nodes.iter().enumerate();
    let listed = ports::site_ports(spec).err().map(|fault| fault.to_string());
    let cooldown = spec.ports_cooldown_in_seconds;
    let cooled = (cooldown < 0).then(|| {
        format!("spec.portsCooldownInSeconds is {cooldown}: write the seconds, from 0 on")
    });
    nameless(configuration)
        .into_iter()
        .chain(repeated(configuration))
        .chain(wiring.flat_map(|(place, rabbit)| miswired(place, rabbit)))
        .chain(listed)
        .chain(cooled)
        .collect()
}

/// Names that no Kubernetes namespace can have, in which a node's objects are.
fn nameless(configuration: &SystemConfiguration) -> Vec<String> {
    let wrong = |(field, name, _): (String, &str, Location)| {
        let name = (!is_label(name)).then(|| shortened(format!("{name:?}"), NAME))?;
        Some(format!(
            "SystemConfiguration default/default, {field}: {name} is no label of a DNS name, which a node has as its Kubernetes namespace: write at most 63 lower case letters, digits and '-', with a letter or digit at both ends"
        ))
    };
    named(configuration).filter_map(wrong).collect()
}

/// Names that two nodes have.
fn repeated(configuration: &SystemConfiguration) -> Vec<String> {
    let mut first: BTreeMap<&str, String> = BTreeMap::new();
    let mut repeated = Vec::new();
    for (field, name, _) in named(configuration) {
        if let Some(earlier) = first.get(name) {
            let name = shortened(format!("{name:?}"), NAME);
            repeated.push(format!("{field}: {name} is {earlier} already: name each node once"));
        } else {
            first.insert(name, field);
        }
    }
    repeated
}

/// Computes of a rabbit at an index that no chassis has, or that another compute has.
fn miswired(place: usize, rabbit: &StorageNode) -> Vec<String> {
    let mut first: BTreeMap<i64, &str> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (at, compute) in rabbit.computes_access.iter().enumerate() {
        let (field, index) =
            (format!("spec.storageNodes[{place}].computesAccess[{at}].index"), compute.index);
        if !(0..=LAST_INDEX).contains(&index) {
            wrong.push(format!(
                "{field} is {index}: write the compute's port of the chassis, 0 to {LAST_INDEX}"
            ));
        } else if let Some(other) = first.insert(index, &compute.name) {
            let other = shortened(other.to_owned(), NAME);
            wrong
                .push(format!("{field} is {index}, as that of {other}: give each compute its own"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn of(spec: &Value) -> Vec<String> {
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
            assert!(of(&right).is_empty(), "{right}");
        }
        let cases = [
            (wired(&[("c-1", 99)]), "spec.storageNodes[0].computesAccess[0].index is 99"),
            (wired(&[("c-1", -1)]), "computesAccess[0].index is -1"),
            (wired(&[("c-1", 3), ("c-2", 3)]), "computesAccess[1].index is 3, as that of c-1"),
            (
                wired(&[("c-1", 3), ("c-1", 4)]),
                "\"c-1\" is spec.storageNodes[0].computesAccess[0].name already",
            ),
            (wired(&[("rabbit-1", 3)]), "\"rabbit-1\" is spec.storageNodes[0].name already"),
            (wired(&[("Compute_1", 3)]), "\"Compute_1\" is no label of a DNS name"),
            (json!({"ports": [2_147_483_648_u64]}), "\"2147483648\" is no port"),
            (json!({"ports": ["9010-9000"]}), "\"9010-9000\" is no port"),
            (json!({"portsCooldownInSeconds": -1}), "spec.portsCooldownInSeconds is -1"),
        ];
        for (spec, words) in cases {
            let told = of(&spec);
            assert!(told.iter().any(|text| text.contains(words)), "{spec}: {told:?}");
        }
    }
}
