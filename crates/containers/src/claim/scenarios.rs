//! Scenarios with two or three coordinators, one API, some rabbits, and faults between them. Each scenario has a number
//! and is a test that begins with this number: S4.7 is the test `s4_7_…`. `golden/claim/vectors.json` and
//! `crates/workflow/tests/engine/claims.rs` use the same numbers. S1 and S3 are races and writes in another's name, S2
//! crashes, S4 an unreachable or restored API, S5 credentials, S6 ends of runs.
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
