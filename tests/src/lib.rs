//! Harnesses, and the suites that need more than one crate.
