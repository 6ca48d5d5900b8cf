//! The rabbit mapping: which rabbit serves which computes, and how many bytes each rabbit has. Flux's setting
//! `rabbit.mapping` names the file.

mod build;
mod differences;
mod in_order;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use build::{Built, MappingError, Objects};
pub use differences::differences;
pub use in_order::InOrder;

/// The rabbit mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// The rabbit of each compute.
    pub computes: BTreeMap<String, String>,
    /// The rabbits by name. Their order numbers the chassis of the graph.
    pub rabbits: InOrder<Rabbit>,
}

/// One rabbit of the mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rabbit {
    /// Bytes that Flux may give to jobs.
    pub capacity: i64,
    /// The rabbit's computes, as a host list.
    pub hostlist: String,
}

/// Error: the text is not a rabbit mapping.
#[derive(Debug, Error)]
#[error(
    "not a rabbit mapping, which has the keys computes and rabbits; write it again with `warren flux rabbitmapping`"
)]
pub struct ParseMappingError(#[from] serde_json::Error);

impl Mapping {
    /// Parses a mapping file.
    ///
    /// # Errors
    /// When the text is not JSON, or lacks a key.
    pub fn parse(text: &str) -> Result<Self, ParseMappingError> {
        Ok(serde_json::from_str(text)?)
    }
}

#[cfg(test)]
mod tests;
