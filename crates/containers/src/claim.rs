//! Decides which of several coordinators works on a run: the coordinator whose claim the API has stored. A claim is the
//! part of the run's status that names a coordinator and a number (the epoch). Pure, like the whole crate.
//!
//! ```text
//! ContainerRun, state of its rabbits, Leases ─ plan ─► one step: write the status, or act on the rabbits
//! a write ─ rules (on a cluster: CEL in the CRD, and an admission policy) ─► admitted, or refused by named rules
//! an action on the rabbits ─ the claim, read again ─► done, or left to the coordinator that has the claim now
//! ```
//! A coordinator acts on a run only under a claim that the API has stored. Each new claim on a run has a higher epoch.
//! Each attempt has a higher number than the attempts before it, so that containers which an earlier attempt left
//! behind are recognised. Three checks stop a coordinator that was away and has not noticed that another coordinator
//! took over: it acts for at most 20 s after it last renewed its Lease, the API refuses its writes, and it reads its
//! claim again before it acts.
//!
//! # Guarantees
//! * Nothing is created for a run before its claim and its phase are stored in the API.
//! * A run has only one final phase. The run does not get this phase while a rabbit that may run its containers is
//!   silent.
//! * A run that another coordinator takes over keeps its attempt: its containers continue.

pub mod leases;
pub mod plan;
pub mod rules;

#[cfg(test)]
mod scenarios;

use std::fmt;

/// One process of a coordinator, identified by the pod that the API knows the process by, and by a random number. A
/// process that is started again has another random number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder(String);

impl Holder {
    /// Creates a holder (a coordinator that may have claims). `pod` is the uid of the pod to which the process's token
    /// is bound; with the embedded API, `pod` is the name of the process's user.
    #[must_use]
    pub fn new(pod: &str, nonce: &str) -> Self {
        Self(format!("{pod}/{nonce}"))
    }

    /// Returns the holder's name as it stands in a run's status.
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
