//! Guests, which are virtual machines with their own kernel, emulated NVMe drives and our programs, and the scenarios
//! that run on guests.
//!
//! ```text
//! tests/lab/prepare ─ Assets ─┐
//! Machine (plain data) ───────┼─► Guest: run a script in it, act on it from outside (QMP)
//! Bench (a directory) ────────┘
//! ```
//! Guarantees: every wait is bounded; guests end with the thread that started them; their output is kept when a
//! scenario fails. Assumption: the lab runs as root, since guests share files with the host.

pub mod assets;
pub mod bench;
pub mod checksum;
pub mod cluster;
pub mod containers;
mod emulator;
pub mod functions;
pub mod guest;
pub mod job;
pub mod kubernetes;
pub mod machine;
pub mod mishap;
pub mod port;
pub mod qmp;
pub mod report;
mod ring;
pub mod scenarios;
pub mod slurm;
pub mod system;
pub mod volume;
pub mod zfs;

pub use assets::Assets;
pub use bench::Bench;
pub use cluster::Cluster;
pub use guest::Guest;
pub use machine::{Drive, Machine};
pub use system::System;
pub use volume::Volume;
