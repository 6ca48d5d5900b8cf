//! Reads the nodes from the SystemConfiguration, and skips names that are not host names.

use std::collections::BTreeMap;

use api::SystemConfiguration;
use proto::limits::{NAME, shortened};

/// The location of a node in the system, from the SystemConfiguration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    Rabbit,
    /// A compute of rabbit `rabbit`, with its index in `computesAccess`.
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

/// Returns the location of each node, without names that are not host names.
pub(super) fn locations(configuration: &SystemConfiguration) -> BTreeMap<String, Location> {
    let valid = named_fields(configuration).filter(|(_, name, _)| is_node_name(name));
    valid.map(|(_, name, location)| (name.to_owned(), location)).collect()
}

/// Describes names that are not host names, with the remedy; `None` if there are none.
pub(crate) fn invalid_name(configuration: &SystemConfiguration) -> Option<String> {
    let mut invalid_names = named_fields(configuration).filter(|(_, name, _)| !is_node_name(name));
    let (field, name, _) = invalid_names.next()?;
    let others = match invalid_names.count() {
        0 => String::new(),
        others => format!(" (nor are {others} other names)"),
    };
    let name = shortened(format!("{name:?}"), NAME);
    Some(format!(
        "SystemConfiguration default/default, {field}: {name} is not a host name (RFC 1123){others}, and is ignored: correct it there"
    ))
}

/// Returns all names of nodes with their fields and locations. Of a name that occurs twice, the later location counts.
pub(super) fn named_fields(
    configuration: &SystemConfiguration,
) -> impl Iterator<Item = (String, &str, Location)> {
    let external = configuration.spec.external_compute_nodes.iter().enumerate();
    let external = external.map(|(at, node)| {
        (format!("spec.externalComputeNodes[{at}].name"), node.name.as_str(), Location::External)
    });
    let rabbits = configuration.spec.storage_nodes.iter().enumerate().flat_map(|(at, rabbit)| {
        let field = format!("spec.storageNodes[{at}]");
        let name = (format!("{field}.name"), rabbit.name.as_str(), Location::Rabbit);
        let computes = rabbit.computes_access.iter().enumerate().map(move |(at, compute)| {
            let index = u32::try_from(compute.index).ok();
            let location = Location::Compute { rabbit: rabbit.name.clone(), index };
            (format!("{field}.computesAccess[{at}].name"), compute.name.as_str(), location)
        });
        [name].into_iter().chain(computes)
    });
    external.chain(rabbits)
}
