//! Tables of plans: the objects of a site, one edit of these objects, and the changes that the engine then plans.
//!
//! A row takes the objects that the engine and the agents leave at the beginning of a state, edits them, and lists the
//! planned changes as [`describe`] writes them. A row may continue: `then` delivers another edit to the running engine,
//! and fails if the edit does not wake the workflow.

mod agents;
mod computes;
mod container_refusals;
mod containers;
mod copies;
mod describe;
mod ends;
mod limits;
mod lustre;
mod mpi;
mod mpi_copies;
mod mpi_on_rabbits;
mod objects;
mod on_rabbits;
mod packages;
mod persistent;
mod pools;
mod proposal;
mod setup;
mod system_storage;
mod unmount;

use serde_json::{Value, json};

use self::objects::Objects;

const GIB: i64 = 1 << 30;
const XFS: &str = "#DW jobdw type=xfs capacity=1GiB name=scratch";
const GFS2: &str = "#DW jobdw type=gfs2 capacity=1GiB name=scratch";
const RAW: &str = "#DW jobdw type=raw capacity=1GiB name=scratch";
/// Bytes of each allocation that a `capacity=1GiB` asks for: the profile adds space for metadata.
const PADDED: i64 = GIB + (32 << 20);

const R: &str = "Storage default/r";
const W: &str = "Workflow default/w";

/// Returns workflow `w` with one directive and the computes `c1` and `c2`, at the beginning of a state.
#[track_caller]
fn at(state: &str, line: &str) -> Objects {
    Objects::site().propose(&[line]).computes(&["c1", "c2"]).reach(state)
}

/// The status that a rabbit's agent writes when it cannot do its work.
fn failure(message: &str, severity: &str) -> Value {
    json!({"status": {"ready": false, "allReady": false, "error": {"debugMessage": "the command's output",
        "userMessage": message, "type": "Internal", "severity": severity}}})
}
