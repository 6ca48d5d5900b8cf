//! Tests of the embedded server only: restarts within the process, a history of a chosen
//! length, and unsupported features.

mod admission;
mod backup;
mod history;
mod open;
mod pieces;
mod refused;
mod restart;
