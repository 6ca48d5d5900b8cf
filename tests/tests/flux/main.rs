//! The prolog and the epilog for Flux, driven as Flux drives them: with programs of the names `flux` and `clientmount-agent`
//! first in PATH that record how they were called. The agent there is a stand-in for most tests; one
//! test has the real one.

mod faults;
mod real;
mod stage;
mod traces;
