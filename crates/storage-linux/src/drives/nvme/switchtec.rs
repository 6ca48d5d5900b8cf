//! Accesses the drives of a rabbit behind its two Microchip Switchtec PAX switches, whose firmware passes admin
//! commands on to the drives.
//!
//! ```text
//! Fabric ─ links, dump ─► Found ─► Behind ─ tunnel ─► AdminQueue ─► the drive, as without switches
//!                                     └─ for each virtual function: reset, bring online, bind to its host
//! ```
//! # Guarantees
//! * A switch is identified by its PAX id, and a drive by its NQN. Device names and function numbers may change, so
//!   they are looked up again before each use.
//! * The virtual functions of a drive are brought online only if each of them is either unbound or bound to the right
//!   host.
//! * Every wait has a deadline: the wait for a tunnel, for an answer, for a command.
//!
//! # Caveats
//! A switch takes one command at a time: during an erasure on one of its drives, commands to its other drives wait.
//! `docs/develop/hardware.md` lists which parts were tested, and on which hardware.

mod behind;
mod bindings;
mod command;
mod dump;
mod fabric;
#[cfg(test)]
pub(super) mod fake;
mod links;
mod record;
mod register;
mod switch;
#[cfg(test)]
mod tests;
mod topology;
mod transport;
mod tunnel;
mod wire;
mod wire_dump;

pub(super) use self::{behind::Behind, fabric::Fabric, topology::label};
