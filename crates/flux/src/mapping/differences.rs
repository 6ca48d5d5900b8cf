//! Says in words how a mapping file differs from the cluster.

use std::collections::BTreeSet;

use directive::hostlist;

use super::{Mapping, Rabbit};

/// Returns the differences between a file and the cluster, each as a sentence. Rabbits come first, then computes.
#[must_use]
pub fn differences(file: &Mapping, now: &Mapping) -> Vec<String> {
    let names = file.rabbits.iter().chain(now.rabbits.iter()).map(|(name, _)| name);
    let rabbits = names.collect::<BTreeSet<_>>().into_iter().flat_map(|name| {
        match (file.rabbits.get(name), now.rabbits.get(name)) {
            (None, _) => vec![format!("rabbit {name} is in the cluster and not in the file")],
            (_, None) => vec![format!("rabbit {name} is in the file and not in the cluster")],
            (Some(file), Some(now)) => rabbit_differences(name, file, now),
        }
    });
    let names: BTreeSet<&String> = file.computes.keys().chain(now.computes.keys()).collect();
    let computes = names.into_iter().filter_map(|name| {
        compute_difference(name, file.computes.get(name), now.computes.get(name))
    });
    rabbits.chain(computes).collect()
}

fn rabbit_differences(name: &str, file: &Rabbit, now: &Rabbit) -> Vec<String> {
    let mut differences = Vec::new();
    if file.capacity != now.capacity {
        let (file, now) = (file.capacity, now.capacity);
        differences.push(format!("rabbit {name}: capacity is {file} bytes in the file, {now} now"));
    }
    if hosts(&file.hostlist) != hosts(&now.hostlist) {
        let (file, now) = (&file.hostlist, &now.hostlist);
        differences.push(format!("rabbit {name}: hostlist is {file:?} in the file, {now:?} now"));
    }
    differences
}

/// Returns the hosts of a list in one order, so that two spellings of a list are equal. A text that is no host list
/// stands for itself.
fn hosts(text: &str) -> Vec<String> {
    hostlist::expand(text).map_or_else(|_| vec![text.to_owned()], hostlist::sort_unique)
}

fn compute_difference(name: &str, file: Option<&String>, now: Option<&String>) -> Option<String> {
    match (file, now) {
        (Some(file), Some(now)) if file == now => None,
        (Some(file), Some(now)) => {
            Some(format!("compute {name} is under rabbit {file} in the file and under {now} now"))
        }
        (Some(file), None) => Some(format!(
            "compute {name} is under rabbit {file} in the file and not in the cluster"
        )),
        (None, Some(now)) => {
            Some(format!("compute {name} is under rabbit {now} in the cluster and not in the file"))
        }
        (None, None) => None,
    }
}
