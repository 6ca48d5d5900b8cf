//! Tests of the embedded server only: restarts in process, a history of a chosen length, and features that it lacks.

mod admission;
mod backup;
mod history;
mod open;
mod pieces;
mod refused;
mod restart;
