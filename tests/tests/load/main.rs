//! Counts the requests that Warren sends to the API server, by the server's audit log.
//!
//! Prints tables, and checks counts but no times. `make kube` runs these tests.

mod mounts;
mod workflows;
