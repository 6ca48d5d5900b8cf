//! OpenAPI documents, made from the schemas that are enforced.

mod protobuf;
pub(crate) mod v2;
pub(crate) mod v3;
