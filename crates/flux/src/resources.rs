//! Flux's description of an instance's resources, R (RFC 20): the nodes, and the cores and GPUs of each.

use std::collections::{BTreeMap, BTreeSet};

use directive::{
    hostlist::{self, HostlistError},
    idset::{self, IdsetError},
};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

/// Error: the value is not an R that this crate can use.
#[derive(Debug, Error)]
pub enum ResourcesError {
    #[error("not an R of Flux (RFC 20); take it from `flux R encode` or `flux resource R`")]
    Malformed(#[from] serde_json::Error),
    #[error("execution.nodelist is not a list of host lists")]
    Nodelist(#[from] HostlistError),
    #[error("execution has no readable id set in {0}")]
    Ids(String, #[source] IdsetError),
    #[error(
        "execution has {ranks} ranks in R_lite and {hosts} hosts in nodelist; both must be the same number"
    )]
    Counts { ranks: usize, hosts: usize },
    #[error(
        "exclude names rank {0}, which execution.R_lite does not have; correct resource.exclude"
    )]
    UnknownRank(u32),
}

/// The nodes of an instance, by rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub nodes: BTreeMap<u32, Node>,
}

/// One node of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// Ids of the resources in the node, by type: `core`, `gpu`.
    pub children: BTreeMap<String, BTreeSet<u32>>,
    pub properties: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
struct R {
    execution: Execution,
}

#[derive(Debug, Deserialize)]
struct Execution {
    #[serde(rename = "R_lite")]
    r_lite: Vec<Targets>,
    nodelist: Vec<String>,
    #[serde(default)]
    properties: BTreeMap<String, String>,
}

/// Ranks with the same resources.
#[derive(Debug, Deserialize)]
struct Targets {
    rank: String,
    #[serde(default)]
    children: BTreeMap<String, String>,
}

impl Resources {
    /// Parses R. Hosts of `nodelist` belong to the ranks in increasing order.
    ///
    /// # Errors
    /// When R lacks a field, a field is unreadable, or ranks and hosts differ in number.
    pub fn parse(r: &Value) -> Result<Self, ResourcesError> {
        let Execution { r_lite, nodelist, properties } = R::deserialize(r)?.execution;
        let ids = |place: &str, text: &str| {
            idset::parse(text).map_err(|error| ResourcesError::Ids(place.to_owned(), error))
        };
        let mut nodes: BTreeMap<u32, Node> = BTreeMap::new();
        for targets in r_lite {
            let mut children = BTreeMap::new();
            for (kind, text) in targets.children {
                let there = ids(&format!("R_lite, children, {kind}"), &text)?;
                children.insert(kind, there);
            }
            for rank in ids("R_lite, rank", &targets.rank)? {
                nodes.entry(rank).or_default().children.clone_from(&children);
            }
        }
        for (property, text) in properties {
            for rank in ids(&format!("properties, {property}"), &text)? {
                nodes.entry(rank).and_modify(|node| {
                    node.properties.insert(property.clone());
                });
            }
        }
        Self { nodes }.with_names(&nodelist)
    }

    fn with_names(mut self, nodelist: &[String]) -> Result<Self, ResourcesError> {
        let mut names = Vec::new();
        for list in nodelist {
            names.extend(hostlist::expand(list)?);
        }
        if names.len() != self.nodes.len() {
            let (ranks, hosts) = (self.nodes.len(), names.len());
            return Err(ResourcesError::Counts { ranks, hosts });
        }
        for (node, name) in self.nodes.values_mut().zip(names) {
            node.name = name;
        }
        Ok(self)
    }

    /// Returns the ranks that Flux's setting `resource.exclude` names: an id set of ranks, or else a host list. Hosts that
    /// the instance does not have are ignored.
    ///
    /// # Errors
    /// When the text is neither, or names a rank that the instance does not have.
    pub fn excluded(&self, exclude: &str) -> Result<BTreeSet<u32>, ResourcesError> {
        if let Ok(ranks) = idset::parse(exclude) {
            let unknown = ranks.iter().find(|rank| !self.nodes.contains_key(rank));
            return unknown
                .map_or(Ok(ranks.clone()), |rank| Err(ResourcesError::UnknownRank(*rank)));
        }
        let hosts: BTreeSet<String> = hostlist::expand(exclude)?.into_iter().collect();
        let named = self.nodes.iter().filter(|(_, node)| hosts.contains(&node.name));
        Ok(named.map(|(rank, _)| *rank).collect())
    }
}
