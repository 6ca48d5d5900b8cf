//! Tests that compare answers with `recorded/`, the answers of a real server. The module `contract` says which parts
//! may differ.

mod builtin;
mod crds;
mod create;
mod delete;
mod forms;
mod list;
mod ours;
mod patch;
mod update;
mod watch;
