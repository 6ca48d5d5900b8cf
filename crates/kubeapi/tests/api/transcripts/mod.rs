//! Complete answers, compared literally: clients and their users read them.

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
