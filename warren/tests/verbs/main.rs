//! Tests of the real binary with a real coordinator.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod backup;
mod ca;
mod centre;
mod flux;
mod interrupted;
mod logs;
mod outsider;
mod own;
mod planning;
mod rabbits;
mod reading;
mod standalone_coordinator;
mod usage;
mod waiting;
mod workflows;
mod writing;
