//! Decides which of several coordinators works on a run: the one whose
//! claim the API has stored. Pure, like the whole crate.
//!
//! ```text
//! ContainerRun, state of its rabbits, Leases ─ plan ─► one step: write the status, or act on the rabbits
//! a write ─ rules ─► admitted, or refused with the rules' names   (on a cluster: CEL in the CRD, and an admission
//! policy)
//! an act ─ the claim, read again ─► done, or left to the coordinator that has the claim now
//! ```
//! A coordinator acts on a run only under a claim that the API has stored. Each claim has a higher epoch; each attempt
//! that may have left containers behind has a higher number. Three checks stop a coordinator that was away and has not
//! seen that another took over: it acts for at most 20 s after it last renewed its Lease, the API refuses its writes,
//! and it reads its claim again before it acts.
//!
//! # Guarantees
//! * Nothing is created for a run before its claim and its phase are stored in the API.
//! * A run has one final phase, and is not called ended while a rabbit that may run its containers is silent.
//! * A run that another coordinator takes over keeps its attempt: its containers go on.

pub mod leases;
pub mod plan;
pub mod rules;

#[cfg(test)]
mod scenarios;

use std::fmt;

/// A process of a coordinator: the pod that the API knows it by, and a nonce. A restarted process has another nonce.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder(String);

impl Holder {
    /// Creates a holder. `pod` is the uid of the pod that the process's token is
    /// bound to; with the embedded API, its user's name.
    #[must_use]
    pub fn new(pod: &str, nonce: &str) -> Self {
        Self(format!("{pod}/{nonce}"))
    }

    /// Returns the holder as a run's status names it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
