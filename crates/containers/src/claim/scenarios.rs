//! Scenarios with two or three coordinators, one API, some rabbits, and faults between them. Each scenario is a test
//! that is named by the scenario's number.
//!
//! The API is in memory: it refuses writes that are based on an old version of the run, and writes that the rules
//! refuse. `tests/tests/privilege/claims.rs` has the scenarios that need a real API server, tokens or RBAC (S1.1, S1.2,
//! S2.3, S2.4, S3.1 to S3.3). S5.1, S5.3 and S5.4 concern the secrets that nodes and pods hold, not claims:
//! their tests are in `coordinator/src/serve`, `tests/tests/credentials.rs` and `crate::pod`. S5.2 is about tokens for
//! runs, which Warren does not have.

mod cancelled;
mod crashed;
mod ended;
mod fence;
mod raced;
mod returned;
mod soak;
mod world;
