//! Ways to the Kubernetes API.
//!
//! ```text
//! text ─► Address ─ connect ─► kube::Client ─► kube::Error ─ plain ─► text
//! ```
//! Guarantees: an address is refused with the forms that exist; nothing is sent before the client is used.
//!
//! Tokens and CAs that are files are read when they are needed, so that they may be replaced at any time.
//!
//! Assumptions: who may use a unix socket is decided at its other end, by the peer's credentials.

mod address;
mod backoff;
mod connect;
mod listening;
mod plain;
mod reloading;
mod secured;
mod server;
mod tcp;
mod unix;

pub use address::{Address, AddressError};
pub use backoff::WatchBackoff;
pub use connect::{ConnectError, connect, connect_to_server, connect_with};
pub use listening::{Heard, listening};
pub use plain::{innermost, plain, plain_watch};
pub use secured::TrustError;
pub use server::{Credentials, CredentialsError};
pub use tcp::tcp;
