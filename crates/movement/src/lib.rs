//! Data movement (`copy_in`, `copy_out`): the decisions, without any I/O.
//!
//! * [`layout`]: decides directory and name of a copy from the types of its source and destination.
//! * [`mpi`]: the command line of a copy by `dcp` under MPI, and the lines that `dcp` prints.
//! * [`order`]: the lines that an agent writes to the standard input of `datamover`.
//! * [`report`]: the lines that `datamover` writes to its standard output.

pub mod layout;
pub mod mpi;
pub mod order;
pub mod report;
