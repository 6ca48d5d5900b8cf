//! Reaches the drives of a rabbit behind its two Microchip Switchtec PAX switches, whose firmware passes
//! admin commands to them.
//!
//! ```text
//! Fabric ─ links, dump ─► Found ─► Behind ─ tunnel ─► AdminQueue ─► the drive, as on any other way
//!                                     └─ reset, online, bind: every virtual function at its host
//! ```
//! # Guarantees
//! * A PAX id identifies a switch, an NQN a drive; device names and function numbers are looked up each time.
//! * A drive is brought up only if each of its functions is unbound or bound to its host.
//! * Every wait ends: for a tunnel, for an answer, for a command.
//!
//! # Caveats
//! A switch takes one command at a time: an erasure on one of its drives makes the others wait.
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
