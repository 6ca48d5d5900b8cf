//! Tests that compare complete answers literally, because clients and their users read the messages.

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
