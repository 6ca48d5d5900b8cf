//! Two or three coordinators, one API, some rabbits, and faults between
//! them: each scenario is a test, named by its number.
//!
//! The API is in memory: it refuses writes of an old version, and writes that the rules refuse.
//! `tests/tests/privilege/claims.rs` has the scenarios that need a real API server, tokens or RBAC (S1.1, S1.2, S2.3,
//! S2.4, S3.1 to S3.3). S5.1, S5.3 and S5.4 are about what nodes and pods hold, not about claims: their tests are in
//! `coordinator/src/serve`, `tests/tests/credentials.rs` and `crate::pod`. S5.2
//! is about tokens for runs, which Warren does not have.

mod cancelled;
mod crashed;
mod ended;
mod fence;
mod raced;
mod returned;
mod soak;
mod world;
