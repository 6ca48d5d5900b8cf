//! The resource graph in the JSON Graph Format that Flux's scheduler Fluxion reads: a chassis per rabbit, with the
//! rabbit's storage in equal parts and its computes.

mod build;
mod differences;
mod summary;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use build::{GraphError, Settings, build, cluster_name};
pub use differences::differences;
pub use summary::{Summary, SummaryError};

/// The value of `scheduling` in R.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Graph {
    pub graph: Vertices,
}

/// Vertices, and the containment of each in another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vertices {
    #[serde(default)]
    pub directed: bool,
    /// Depth first; ids are positions in this list.
    pub nodes: Vec<Vertex>,
    pub edges: Vec<Edge>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vertex {
    pub id: String,
    pub metadata: Metadata,
}

/// `target` is in `source`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    pub source: String,
    pub target: String,
}

/// Fields of a vertex, in the order of Flux's file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// `cluster`, `chassis`, `ssd`, `node`, `storage_node`, or the type of a resource in a node: `core`, `gpu`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Size of an ssd, in `unit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<bool>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    pub paths: Paths,
    /// 0 for up, 1 for down. Each ssd begins down; flux-coral2's service raises it while the rabbit is Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paths {
    pub containment: String,
}

#[cfg(test)]
mod tests;
