//! Copies a job's data on a rabbit, as the job's user.
//!
//! The rabbit's agent starts one `datamover` for each movement, as root. The agent writes an order as one line of JSON to its standard
//! input ([`movement::order`]), and reads progress from its standard output ([`movement::report`]). `datamover` opens its journal and
//! the roots of both file systems, becomes the user for good, and only then looks at anything that a user named.
//!
//! * Every path is resolved beneath its root by openat2(2) (`RESOLVE_BENEATH`); directories that were opened stay open, so that a link
//!   put in the place of a directory leads nowhere. Landlock(7) forbids the rest, where the kernel has it.
//! * A file is copied under a temporary name and renamed when it is whole, with mode, times and, if ordered, extended attributes.
//! * Files larger than a block are copied by several threads; the journal says which blocks are done.
//! * When the agent ends, its end of the standard input closes, and `datamover` ends at once. The next run goes on: what the journal
//!   and the destination's own times prove to be whole is kept.

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
