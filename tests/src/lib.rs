//! Harnesses for the suites that need more than one crate: all programs of Warren on one computer, the objects that a
//! site's DWS and NNF controllers would create, and checks that a test leaves nothing behind.

pub use gate;

pub mod adoption;
pub mod api_server;
pub mod bench;
pub mod centre;
pub mod claims;
pub mod cluster;
pub mod crash;
pub mod demo;
pub mod direct;
pub mod disturbed;
pub mod file_server;
pub mod fixture;
pub mod help;
pub mod lab;
pub mod leftovers;
pub mod lives;
pub mod lustre_tools;
pub mod podman;
pub mod program;
pub mod run;
pub mod secrets;
pub mod server;
pub mod slurm;
pub mod sources;
pub mod stand_in;
pub mod verbs;
pub mod webhook;
pub mod workflow;
pub mod workloads;
