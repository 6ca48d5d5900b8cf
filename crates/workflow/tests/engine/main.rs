//! Brings workflows from Proposal to Teardown on a site in memory: tests what the engine plans from the objects,
//! with and without faults.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod claims;
mod client_writes;
mod conflicts;
mod containers;
mod copies;
mod docs;
mod faults;
mod job;
mod live;
mod lives;
mod lustre;
mod matrix;
mod persistent;
mod placement;

mod rehearsals;
mod rules;
mod samples;
mod scale;
mod site;
mod stored;
mod volumes;
