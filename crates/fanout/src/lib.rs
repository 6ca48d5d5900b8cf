//! ClientMounts from the API to the nodes that mount them, and their status back.
//!
//! ```text
//! API ─ watch ─► exchange ─ next ───► node
//! API ◄─ write_back ◄─ report ◄────── node
//! ```
//! Profiles are watched, and one that is not known is asked for before anybody is told that it is missing.
//!
//! Guarantees:
//! * A node is told of a ClientMount only after the object carries the node's finalizer, whatever else is wrong with it.
//! * `Synced` is said only when every object that existed was told, from lists that were read to their end.
//! * A node that comes is told nothing before the API was asked since for its objects and the watch knows
//!   them all: a coordinator that is behind takes back nothing that another one told.
//! * Writes are patches of what is ours, made only when they change something; own writes are told to nobody.
//! * A status that says something else than its node reported was written by somebody else: the node is told once more.
//! * While the API cannot be reached nothing is told, and nothing that was told is taken back.
//!
//! Assumptions: a resourceVersion is a number that grows, as it is on every supported API server.

mod asked;
mod beside;
mod exchange;
mod fanout;
mod newcomers;
mod object;
mod pace;
mod pending;
mod watch;
mod write_back;

pub use asked::ask_profiles;
pub use exchange::{Ended, Exchange};
pub use fanout::Audience;
pub use newcomers::admit_newcomers;
pub use object::{Key, MountObject, ProfileObject};
pub use pending::UnfitStatus;
pub use watch::{client_mounts, follow, profiles, resource};
pub use write_back::write_back;
