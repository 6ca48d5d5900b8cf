//! Whole answers, to the letter: what clients and their users read.

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
