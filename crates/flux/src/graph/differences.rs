//! Says in words how the graph in a file differs from the cluster.

use std::collections::{BTreeMap, BTreeSet};

use directive::idset;

use super::{
    Graph,
    summary::{Chassis, Host, Summary, SummaryError},
};

/// Returns the differences between the graph of a file and the cluster's, each as a sentence.
///
/// # Errors
/// When one of the graphs is unreadable.
pub fn differences(file: &Graph, now: &Graph) -> Result<Vec<String>, SummaryError> {
    let (old, new) = (Summary::new(file)?, Summary::new(now)?);
    let mut all = Vec::new();
    if old.cluster != new.cluster {
        all.push(format!("the cluster is {} in the file, {} now", old.cluster, new.cluster));
    }
    for (name, old, new) in pairs(&old.rabbits, &new.rabbits) {
        all.extend(match (old, new) {
            (None, _) => vec![format!("rabbit {name} is in the cluster and not in the file")],
            (_, None) => vec![format!("rabbit {name} is in the file and not in the cluster")],
            (Some(old), Some(new)) => chassis_differences(name, old, new),
        });
    }
    for (name, old, new) in pairs(&old.nodes, &new.nodes) {
        all.extend(match (old, new) {
            (None, _) => vec![format!("node {name} is in the instance and not in the file")],
            (_, None) => vec![format!("node {name} is in the file and not in the instance")],
            (Some(old), Some(new)) => host_differences(name, old, new),
        });
    }
    if all.is_empty() && file != now {
        all.push("the vertices are the same, but their order or fields are not".to_owned());
    }
    Ok(all)
}

/// Returns the values of two maps by their common names.
fn pairs<'a, T>(
    old: &'a BTreeMap<String, T>,
    new: &'a BTreeMap<String, T>,
) -> impl Iterator<Item = (&'a String, Option<&'a T>, Option<&'a T>)> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    names.into_iter().map(|name| (name, old.get(name), new.get(name)))
}

fn chassis_differences(name: &str, old: &Chassis, new: &Chassis) -> Vec<String> {
    let ssds = |chassis: &Chassis| {
        let sizes: BTreeSet<u64> = chassis.ssds.iter().copied().collect();
        let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
        format!("{} ssds of {} GiB", chassis.ssds.len(), sizes.join(" and "))
    };
    let mut differences = Vec::new();
    if old.number != new.number {
        let (old, new) = (old.number, new.number);
        differences.push(format!("rabbit {name} is chassis{old} in the file, chassis{new} now"));
    }
    if old.ssds != new.ssds {
        let (old, new) = (ssds(old), ssds(new));
        differences.push(format!("rabbit {name} has {old} in the file, {new} now"));
    }
    differences
}

fn host_differences(name: &str, old: &Host, new: &Host) -> Vec<String> {
    let place = |host: &Host| {
        host.rabbit.as_ref().map_or_else(|| "no rabbit".to_owned(), |name| format!("rabbit {name}"))
    };
    let properties = |host: &Host| {
        let names: Vec<&str> = host.properties.iter().map(String::as_str).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let children = |host: &Host| {
        let kinds: Vec<String> = host
            .children
            .iter()
            .map(|(kind, ids)| format!("{kind}[{}]", idset::format(ids)))
            .collect();
        if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") }
    };
    let facts = [
        (place(old), place(new), "is under"),
        (old.rank.to_string(), new.rank.to_string(), "has the rank"),
        (properties(old), properties(new), "has the properties"),
        (children(old), children(new), "has the resources"),
    ];
    let changed = facts.into_iter().filter(|(old, new, _)| old != new);
    changed
        .map(|(old, new, verb)| format!("node {name} {verb} {old} in the file, {new} now"))
        .collect()
}
