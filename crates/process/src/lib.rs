//! Runs programs, and system calls that may hang, each with a deadline. An error of a deadline says where in the kernel
//! each process waits, and which locks of the distributed lock manager (DLM) this node was not granted.
//!
//! * [`Cmd`] runs a program that ends within its deadline.
//! * [`worker`] runs a program for hours.
//! * [`child`] makes a system call in a child process, so that only the child hangs.
//! * [`bounded`] makes a call on a thread that may be given up.
//!
//! # Guarantees
//! * Only `cmd` and `worker` start programs, and only `child` forks.
//! * What hangs is not started again: a call or a command under the same name fails at once as long as the earlier one
//!   has not ended.
//! * When the process that uses this crate is killed, the kernel kills the programs that it started, but not the children
//!   of these programs.

pub mod bounded;
pub mod child;
pub mod cmd;
pub mod hung;
pub mod worker;

pub use cmd::Cmd;

/// Processes or calls that have not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unended {
    /// Descriptions of the processes.
    pub names: Vec<String>,
    /// PIDs of the processes.
    pub processes: Vec<i32>,
}
