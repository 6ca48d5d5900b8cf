//! Copies a job's data on a rabbit, as the job's user.
//!
//! The rabbit's agent starts one `datamover` for each movement, as root. The agent writes an order as one line of JSON
//! to the standard input of `datamover` ([`movement::order`]), and reads progress from its standard output
//! ([`movement::report`]). `datamover` opens its journal and the roots of both file systems, changes to the user's ids,
//! and only then resolves paths that the user named.
//!
//! * Every path is resolved beneath its root by openat2(2) (`RESOLVE_BENEATH`). Opened directories stay open, so that a
//!   symbolic link that a user puts in the place of a directory is not followed. On kernels with landlock(7), all other
//!   file access is forbidden.
//! * A file is copied under a temporary name and renamed when it is complete, with mode, times and, if ordered,
//!   extended attributes.
//! * Files larger than a block are copied by several threads; the journal records the copied blocks.
//! * When the agent ends, its end of the pipe to the standard input closes, and `datamover` ends at once. The next run
//!   continues: it keeps the copies that are complete according to the journal and the destination's own times.

mod checkpoints;
mod cleaning;
mod confine;
mod counters;
mod data;
mod failures;
mod file;
mod folder;
mod journal;
mod large;
mod links;
mod metadata;
mod mover;
mod place;
mod queue;
mod resume;
mod run;
mod scan;
mod space;
mod special;
mod talk;
mod threads;
mod throttle;
mod walk;

pub use run::main;
