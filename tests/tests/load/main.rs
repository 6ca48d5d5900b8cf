//! What Warren costs the API server, counted by the server's own audit log.
//!
//! Prints tables. Counts are asserted, times are not measured here. `make kube` runs it.

mod mounts;
mod workflows;
