//! What the SystemConfiguration says of the nodes. A name that no agent could say hello with is no node's.

use std::collections::BTreeMap;

use api::SystemConfiguration;
use proto::limits::{NAME, shortened};

/// Where a node is in the machine, by the SystemConfiguration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Rabbit,
    Compute {
        rabbit: String,
        index: Option<u32>,
    },
    /// A compute without a rabbit.
    External,
}

pub(super) fn is_node_name(name: &str) -> bool {
    hostname_validator::is_valid(name)
}

/// Where each node is that has the name of one.
pub(super) fn places(configuration: &SystemConfiguration) -> BTreeMap<String, Place> {
    let named = named(configuration).filter(|(_, name, _)| is_node_name(name));
    named.map(|(_, name, place)| (name.to_owned(), place)).collect()
}

/// Which names are no node's, and what to do about them.
pub(crate) fn unfit(configuration: &SystemConfiguration) -> Option<String> {
    let mut unfit = named(configuration).filter(|(_, name, _)| !is_node_name(name));
    let (field, name, _) = unfit.next()?;
    let others = match unfit.count() {
        0 => String::new(),
        others => format!(" (nor are {others} other names)"),
    };
    let name = shortened(format!("{name:?}"), NAME);
    Some(format!(
        "SystemConfiguration default/default, {field}: {name} is no host name (RFC 1123){others}, so no node has it here: correct it there"
    ))
}

/// All names with their fields; of one that is there twice the later place counts.
fn named(configuration: &SystemConfiguration) -> impl Iterator<Item = (String, &str, Place)> {
    let external = configuration.spec.external_compute_nodes.iter().enumerate();
    let external = external.map(|(at, node)| {
        (format!("spec.externalComputeNodes[{at}].name"), node.name.as_str(), Place::External)
    });
    let rabbits = configuration.spec.storage_nodes.iter().enumerate().flat_map(|(at, rabbit)| {
        let field = format!("spec.storageNodes[{at}]");
        let name = (format!("{field}.name"), rabbit.name.as_str(), Place::Rabbit);
        let computes = rabbit.computes_access.iter().enumerate().map(move |(at, compute)| {
            let index = u32::try_from(compute.index).ok();
            let place = Place::Compute { rabbit: rabbit.name.clone(), index };
            (format!("{field}.computesAccess[{at}].name"), compute.name.as_str(), place)
        });
        [name].into_iter().chain(computes)
    });
    external.chain(rabbits)
}
