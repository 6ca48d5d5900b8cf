//! What only the embedded server has: restarts in process, a history of a chosen length, and the things that it does not do.

mod admission;
mod backup;
mod history;
mod open;
mod pieces;
mod refused;
mod restart;
