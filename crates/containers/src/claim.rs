//! Which coordinator works on a run, when there are several: one claims it. Pure, like all of this crate.
//!
//! ```text
//! ContainerRun, what is on its rabbits, the Leases ─ plan ─► one step: a write of the status, or an act on the rabbits
//! a write ─ rules ─► admitted, or refused by name      (on a cluster: CEL in the CRD, and an admission policy)
//! an act ─ the claim, read again ─► made, or left to whoever has the claim now
//! ```
//! A coordinator acts on a run only by a claim that the API has stored. Each claim has a higher epoch, each attempt that may have
//! left containers behind a higher number. A coordinator that was away, and does not know that another took over, is stopped
//! three times: it may act for 20 s after it last renewed its Lease, the API refuses what it writes, and it
//! reads its claim again before it acts.
//!
//! # Guarantees
//! * Nothing is made for a run before its claim and its phase say so in the API.
//! * A run has one final phase, and nothing of it is called ended while a rabbit that may run it is silent.
//! * A run that is taken over keeps its attempt: its containers go on.

pub mod leases;
pub mod plan;
pub mod rules;

#[cfg(test)]
mod scenarios;

use std::fmt;

/// A process of a coordinator: the pod that the API knows it by, and a number of its own. A process that starts anew is another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder(String);

impl Holder {
    /// `pod` is the uid of the pod that the process's token is bound to; with the embedded API, the name of its user.
    #[must_use]
    pub fn new(pod: &str, nonce: &str) -> Self {
        Self(format!("{pod}/{nonce}"))
    }

    /// As a status names it.
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
