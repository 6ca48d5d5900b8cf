//! Clients of the Kubernetes API, one for each kind of address.
//!
//! ```text
//! text ─► Address ─ connect ─► kube::Client ─► kube::Error ─ plain ─► text
//! ```
//! Guarantees: the error for an invalid address names the accepted forms; a client sends nothing
//! before its first request.
//!
//! Token files and CA files are read for each request, so they may be replaced at any time.
//!
//! Assumption: the server of a unix socket identifies clients by their peer credentials (`SO_PEERCRED`), so a client of
//! a unix socket sends no token.

mod address;
mod connect;
mod delays;
mod list_readable;
mod observed;
mod plain;
mod reloading;
mod server;
mod tcp;
mod unix;

pub use address::{Address, AddressError};
pub use connect::{ConnectError, connect, connect_certified, connect_to_server, connect_with};
pub use delays::{Delays, WatchBackoff};
pub use list_readable::{Readable, list_readable};
pub use observed::{Answer, observe_answers};
pub use plain::{innermost, is_refusal, plain};
pub use reloading::CertificateFiles;
pub use server::{Credentials, CredentialsError};
pub use tcp::tcp;
