//! Tests of the rights of each identity on a real API server, with the objects that are packaged for clusters.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod ask;
mod claims;
mod engine;
mod flux;
mod identities;
mod installed;
mod life;
mod packaging;
mod pods;
mod policy;
mod rights;
mod tokens;
