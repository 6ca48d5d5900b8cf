//! The content of a graph without its numbering, for comparisons.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::{Graph, Metadata};

/// Error: the value is not a graph of rabbits.
#[derive(Debug, Error)]
pub enum SummaryError {
    #[error("the graph lacks vertex {0}, which an edge names")]
    UnknownVertex(String),
    #[error("the graph has no cluster vertex")]
    NoCluster,
    #[error("vertex {0} has no name")]
    Unnamed(String),
}

/// Rabbits and nodes of a graph, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub cluster: String,
    pub rabbits: BTreeMap<String, Chassis>,
    pub nodes: BTreeMap<String, Host>,
}

/// A rabbit's chassis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chassis {
    /// Number in the path of the vertex.
    pub number: u32,
    /// Size of each ssd in GiB, in order.
    pub ssds: Vec<u64>,
}

/// A node of the instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The rabbit in whose chassis the node is.
    pub rabbit: Option<String>,
    pub rank: u32,
    pub properties: BTreeSet<String>,
    /// Ids of the resources in the node, by type.
    pub children: BTreeMap<String, BTreeSet<u32>>,
}

impl Summary {
    /// Reads a graph.
    ///
    /// # Errors
    /// When the graph has no cluster, or an edge names an unknown vertex.
    pub fn new(graph: &Graph) -> Result<Self, SummaryError> {
        let vertices: BTreeMap<&str, &Metadata> =
            graph.graph.nodes.iter().map(|vertex| (vertex.id.as_str(), &vertex.metadata)).collect();
        let vertex = |id: &str| {
            vertices.get(id).copied().ok_or_else(|| SummaryError::UnknownVertex(id.to_owned()))
        };
        let cluster = vertices.values().find(|vertex| vertex.kind == "cluster");
        let cluster = cluster.ok_or(SummaryError::NoCluster)?.name.clone().unwrap_or_default();
        let mut summary = Self { cluster, ..Self::default() };
        for edge in &graph.graph.edges {
            summary.add(vertex(&edge.source)?, vertex(&edge.target)?)?;
        }
        Ok(summary)
    }

    /// Adds a vertex that is in another.
    fn add(&mut self, parent: &Metadata, child: &Metadata) -> Result<(), SummaryError> {
        match child.kind.as_str() {
            "chassis" => self.chassis(child).number = child.id.unwrap_or_default(),
            "ssd" => self.chassis(parent).ssds.push(child.size.unwrap_or_default()),
            "node" | "storage_node" => {
                let host = self.host(child)?;
                host.rabbit = parent.properties.get("rabbit").cloned();
                host.rank = child.rank.unwrap_or_default();
                host.properties = child.properties.keys().cloned().collect();
            }
            kind => {
                let ids = self.host(parent)?.children.entry(kind.to_owned()).or_default();
                ids.extend(child.id);
            }
        }
        Ok(())
    }

    fn chassis(&mut self, vertex: &Metadata) -> &mut Chassis {
        let rabbit = vertex.properties.get("rabbit").cloned().unwrap_or_default();
        self.rabbits.entry(rabbit).or_default()
    }

    fn host(&mut self, vertex: &Metadata) -> Result<&mut Host, SummaryError> {
        let unnamed = || SummaryError::Unnamed(vertex.paths.containment.clone());
        let name = vertex.name.clone().ok_or_else(unnamed)?;
        Ok(self.nodes.entry(name).or_default())
    }
}
