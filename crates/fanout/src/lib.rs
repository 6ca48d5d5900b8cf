//! Carries ClientMounts from the API to the nodes that mount them, and their status back.
//!
//! ```text
//! API ─ watch ─► exchange ─ next ───► node
//! API ◄─ write_back ◄─ report ◄────── node
//! ```
//! The fanout also watches profiles. If the watch does not know a profile, the fanout reads the profile from the API
//! before it reports to a node that the profile is missing.
//!
//! Guarantees:
//! * A node receives a ClientMount, even an invalid one, only after the object carries the finalizer.
//! * A node receives the message `Synced` only after every object that existed when the node's session started. The
//!   node may then treat objects that it has not received as nonexistent.
//! * A node that connects may have newer objects from another coordinator. So this coordinator first lists the node's
//!   objects again, and sends nothing until its watch has delivered all of them. Otherwise it could send older
//!   versions, and so undo what the other coordinator sent.
//! * A write patches only fields that Warren owns, and only if their values change. Warren's own writes cause no
//!   messages to nodes.
//! * If another client overwrites the status that a node reported, the object is sent to that node once more.
//! * While the API cannot be reached, nodes receive no messages and keep their mounts.
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
