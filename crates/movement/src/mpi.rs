//! Copies by `dcp` (mpiFileUtils) under MPI: the command line of a data movement profile, and the lines that `dcp`
//! prints.

pub mod command;
pub mod output;
