//! Carries ClientMounts from the API to the nodes that mount them, and their status back.
//!
//! ```text
//! API ─ watch ─► exchange ─ next ───► node
//! API ◄─ write_back ◄─ report ◄────── node
//! ```
//! Profiles are watched too. A profile that the watch does not know is read from the API before a node is told that it is missing.
//!
//! Guarantees:
//! * A node receives a ClientMount only once the object carries the finalizer, also if the object is invalid.
//! * A node receives `Synced` only after every object that existed, and only once all pages of the lists were read.
//! * A node that connects receives nothing until the API has listed its objects after the connect, and the watch has delivered them
//!   all: so a coordinator whose watch is behind does not revoke messages of another coordinator.
//! * A write patches only fields that Warren owns, and only if their values change. Such a write wakes no node.
//! * If another client overwrites the status that a node reported, the object is sent to that node once more.
//! * While the API cannot be reached, nodes receive nothing and lose nothing.
//!
//! Assumptions: a resourceVersion is a number that grows, as it is on every supported API server.

mod exchange;
mod fanout;
mod object;
mod pending;
mod profile_reader;
mod requests;
mod start_sessions;
mod watch;
mod write_back;

pub use exchange::{Exchange, Nodes, SessionEnded};
pub use fanout::NodeKind;
pub use object::{Key, MountObject, ProfileObject};
pub use pending::InvalidStatus;
pub use profile_reader::read_profiles;
pub use start_sessions::start_sessions;
pub use watch::{client_mounts, everywhere, follow, profiles, resource};
pub use write_back::write_back;
