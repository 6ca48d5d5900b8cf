//! The gRPC protocol between Warren's programs.
//!
//! The sources are in `proto/warren/v1`. Conversions between these messages and the types of `api` and `storage` are in the
//! daemons, so that this crate depends on neither.

pub mod limits;
pub mod pem;

/// Version 1 of the protocol.
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::large_enum_variant,
    reason = "generated code"
)]
pub mod v1 {
    tonic::include_proto!("warren.v1");
}

/// The encoded `FileDescriptorSet` of the protocol, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
