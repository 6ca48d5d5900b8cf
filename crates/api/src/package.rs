//! `Package`: a file or archive that a job's containers find on each rabbit of their run. An NnfContainerProfile lists
//! job packages, and each NodeContainers that the engine makes from the profile contains the same list.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A job package: a file or archive that containers find on each rabbit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Package {
    /// Name; containers find the job package at `/nnf/packages/<name>`.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Source from which the rabbits fetch the file: `https://…`, `http://…`, or the absolute path of a file
    /// that every rabbit sees.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// SHA-256 of the file, as 64 lower-case hexadecimal digits.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: String,
    /// Size of the file, in bytes.
    #[schemars(range(min = 1))]
    pub size: i64,
    /// True if the file is a tar archive, plain or compressed with gzip or zstd; containers then find a
    /// directory with its content.
    #[serde(default, skip_serializing_if = "crate::omit::is_false")]
    pub unpack: bool,
    /// Largest size of the decompressed archive, in bytes; by default ten times `size` plus 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub unpacked_size: Option<i64>,
}
