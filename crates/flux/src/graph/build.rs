//! Builds the graph from a mapping and the nodes of an instance.

use std::collections::{BTreeMap, BTreeSet};

use directive::hostlist::{self, HostlistError};
use thiserror::Error;

use super::{Edge, Graph, Metadata, Paths, Vertex};
use crate::{Mapping, Resources, mapping::Rabbit, resources::Node};

const GIB: u64 = 1 << 30;
/// Status of an ssd that is down.
const DOWN: u32 = 1;

/// Error: mapping and R contradict each other.
#[derive(Debug, Error)]
pub enum GraphError {
    #[error(
        "R lacks these computes of the mapping: {0}; correct the mapping, or permit it with --no-validate"
    )]
    MissingComputes(String),
    #[error("the mapping's host list of rabbit {0} is unreadable")]
    Hostlist(String, #[source] HostlistError),
}

/// Settings of the graph.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the root vertex.
    pub cluster: String,
    /// Number of ssds per rabbit, at least 1: Flux allocates a whole ssd at a time.
    pub chunks: u32,
    /// Whether each compute of the mapping must be in R.
    pub validate: bool,
    /// Ranks that get no vertex, by [`Resources::excluded`]. Rabbits stay, as in flux-coral2.
    pub excluded: BTreeSet<u32>,
}

/// Returns the name of the cluster for a host name: without digits, and without dashes at the end.
#[must_use]
pub fn cluster_name(hostname: &str) -> String {
    let name: String = hostname.chars().filter(|letter| !letter.is_ascii_digit()).collect();
    name.trim_end_matches('-').to_owned()
}

/// Builds the graph.
///
/// # Errors
/// When R lacks a compute of the mapping, unless `validate` is false.
pub fn build(
    mapping: &Mapping,
    resources: &Resources,
    settings: &Settings,
) -> Result<Graph, GraphError> {
    let by_name: BTreeMap<&str, u32> =
        resources.nodes.iter().map(|(rank, node)| (node.name.as_str(), *rank)).collect();
    let missing: Vec<&String> =
        mapping.computes.keys().filter(|name| !by_name.contains_key(name.as_str())).collect();
    if settings.validate && !missing.is_empty() {
        let missing = hostlist::compress(&hostlist::sort_unique(missing));
        return Err(GraphError::MissingComputes(missing));
    }
    let mut builder = Builder { resources, settings, by_name, graph: Graph::default() };
    let root = Place { id: None, path: String::new() };
    let name = Some(settings.cluster.clone());
    let cluster = Metadata { kind: "cluster".to_owned(), name, ..Metadata::default() };
    let cluster = builder.add(&root, &settings.cluster, cluster);
    for ((name, rabbit), index) in mapping.rabbits.iter().zip(0..) {
        builder.add_rabbit(&cluster, index, name, rabbit)?;
    }
    for (rank, node) in &resources.nodes {
        let is_mapped = mapping.computes.contains_key(&node.name);
        if !is_mapped && mapping.rabbits.get(&node.name).is_none() {
            builder.add_compute(&cluster, *rank, node);
        }
    }
    Ok(builder.graph)
}

/// A vertex that may contain others.
struct Place {
    /// `None` above the root.
    id: Option<usize>,
    path: String,
}

struct Builder<'a> {
    resources: &'a Resources,
    settings: &'a Settings,
    by_name: BTreeMap<&'a str, u32>,
    graph: Graph,
}

impl Builder<'_> {
    /// Adds a vertex in another, with its path.
    fn add(&mut self, parent: &Place, name: &str, metadata: Metadata) -> Place {
        let graph = &mut self.graph.graph;
        let id = graph.nodes.len();
        let path = format!("{}/{name}", parent.path);
        let paths = Paths { containment: path.clone() };
        graph.nodes.push(Vertex { id: id.to_string(), metadata: Metadata { paths, ..metadata } });
        if let Some(source) = parent.id {
            graph.edges.push(Edge { source: source.to_string(), target: id.to_string() });
        }
        Place { id: Some(id), path }
    }

    fn add_rabbit(
        &mut self,
        cluster: &Place,
        index: u32,
        name: &str,
        rabbit: &Rabbit,
    ) -> Result<(), GraphError> {
        let hosts = hostlist::expand(&rabbit.hostlist)
            .map_err(|error| GraphError::Hostlist(name.to_owned(), error))?;
        let chunks = self.settings.chunks;
        let properties = [("rabbit", name.to_owned()), ("ssdcount", chunks.to_string())];
        let properties = properties.map(|(key, value)| (key.to_owned(), value)).into();
        let kind = "chassis".to_owned();
        let chassis = Metadata { kind, id: Some(index), properties, ..Metadata::default() };
        let chassis = self.add(cluster, &format!("chassis{index}"), chassis);
        self.add_ssds(&chassis, rabbit);
        let resources = self.resources;
        let ranks: Vec<u32> =
            hosts.iter().filter_map(|host| self.by_name.get(host.as_str()).copied()).collect();
        for rank in ranks {
            self.add_compute(&chassis, rank, &resources.nodes[&rank]);
        }
        if let Some(rank) = self.by_name.get(name).copied() {
            let exclusive = Some(true);
            let kind = "storage_node".to_owned();
            let metadata = Metadata { kind, exclusive, ..Metadata::default() };
            self.add_node(&chassis, rank, &resources.nodes[&rank], metadata);
        }
        Ok(())
    }

    fn add_ssds(&mut self, chassis: &Place, rabbit: &Rabbit) {
        let chunks = self.settings.chunks;
        let capacity = u64::try_from(rabbit.capacity).unwrap_or_default();
        let size = capacity / u64::from(chunks.max(1)) / GIB;
        for index in 0..chunks {
            let ssd = Metadata {
                kind: "ssd".to_owned(),
                unit: Some("GiB".to_owned()),
                size: Some(size),
                status: Some(DOWN),
                ..Metadata::default()
            };
            self.add(chassis, &format!("ssd{index}"), ssd);
        }
    }

    fn add_compute(&mut self, parent: &Place, rank: u32, node: &Node) {
        if !self.settings.excluded.contains(&rank) {
            let metadata = Metadata { kind: "node".to_owned(), ..Metadata::default() };
            self.add_node(parent, rank, node, metadata);
        }
    }

    /// Adds a node with the resources in it.
    fn add_node(&mut self, parent: &Place, rank: u32, node: &Node, metadata: Metadata) {
        let properties = node.properties.iter().map(|name| (name.clone(), String::new())).collect();
        let name = Some(node.name.clone());
        let metadata = Metadata { name, rank: Some(rank), properties, ..metadata };
        let place = self.add(parent, &node.name, metadata);
        for (kind, ids) in &node.children {
            for id in ids {
                let child = Metadata {
                    kind: kind.clone(),
                    id: Some(*id),
                    rank: Some(rank),
                    ..Metadata::default()
                };
                self.add(&place, &format!("{kind}{id}"), child);
            }
        }
    }
}
