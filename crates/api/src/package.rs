//! `Package`: a file or an archive that a run's containers find on each of its rabbits. A profile names it, and so does every
//! NodeContainers that the profile becomes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A package.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Package {
    /// Its name; containers find it at `/nnf/packages/<name>`.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Where the rabbits get it: `https://…`, `http://…`, or the absolute path of a file that every rabbit sees.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// SHA-256 of the file, in lower-case hexadecimal digits.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: String,
    /// Bytes of the file.
    #[schemars(range(min = 1))]
    pub size: i64,
    /// Whether the file is a tar archive, plain or compressed with gzip or zstd, and containers find a directory with what is in it.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub unpack: bool,
    /// Bytes that the archive may have once it is decompressed; ten times `size` and 1 MiB when nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub unpacked_size: Option<i64>,
}
