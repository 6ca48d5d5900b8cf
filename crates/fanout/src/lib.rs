//! Carries ClientMounts from the API to the nodes that mount them, and their status back.
//!
//! ```text
//! API ─ watch ─► exchange ─ next ───► node
//! API ◄─ write_back ◄─ report ◄────── node
//! ```
//! Profiles are watched too. One that the watch does not know is read before a node learns that it is missing.
//!
//! Guarantees:
//! * A node receives a ClientMount only once the object carries the finalizer, whatever else is wrong with it.
//! * A node receives `Synced` only after every object that existed, from lists that were read to their end.
//! * A node that connects receives nothing until the API has listed its objects after that and the watch knows them all: a
//!   coordinator whose watch is behind takes back nothing that another one sent.
//! * A write patches only fields that Warren owns, and only when that changes something; own writes wake no node.
//! * When somebody overwrote the status that a node reported, the object is sent to that node once more.
//! * While the API cannot be reached, nodes receive nothing and lose nothing.
//!
//! Assumptions: a resourceVersion is a number that grows, as it is on every supported API server.

mod exchange;
mod fanout;
mod object;
mod pending;
mod profile_reader;
mod requests;
mod session_start;
mod watch;
mod write_back;

pub use exchange::{Ended, Exchange, Nodes};
pub use fanout::NodeKind;
pub use object::{Key, MountObject, ProfileObject};
pub use pending::InvalidStatus;
pub use profile_reader::read_profiles;
pub use session_start::start_sessions;
pub use watch::{client_mounts, everywhere, follow, profiles, resource};
pub use write_back::write_back;
