//! Ways to the Kubernetes API.
//!
//! ```text
//! text ─► Address ─ connect ─► kube::Client ─► kube::Error ─ plain ─► text
//! ```
//! Guarantees: an address is refused with the forms that exist; nothing is sent before the client is used.
//!
//! Assumptions: who may use a unix socket is decided at its other end, by the peer's credentials.

mod address;
mod connect;
mod plain;
mod unix;

pub use address::{Address, AddressError};
pub use connect::{ConnectError, connect, connect_to_server};
pub use plain::{plain, plain_watch};
