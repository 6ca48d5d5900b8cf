//! Tests of whole lives of workflows against a site in memory: what the engine plans from the objects,
//! with and without faults.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod claims;
mod computes;
mod conflicts;
mod containers;
mod docs;
mod faults;
mod job;
mod live;
mod lives;
mod lustre;
mod matrix;
mod persistent;
mod placement;
mod refusals;
mod rules;
mod samples;
mod scale;
mod site;
mod stored;
mod switch;
mod unreadable;
mod volumes;
