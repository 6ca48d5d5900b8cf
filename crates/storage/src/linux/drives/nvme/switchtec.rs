//! Drives of a rabbit: behind two Microchip Switchtec PAX switches, whose firmware carries admin commands to them.
//!
//! ```text
//! Fabric ─ links, dump ─► Found ─► Behind ─ tunnel ─► AdminQueue ─► the drive, as on any other way
//!                                     └─ reset, online, bind: every virtual function at its host
//! ```
//! # Guarantees
//! * A PAX id identifies a switch, an NQN a drive; device names and function numbers are looked up each time.
//! * A drive is brought up only if its functions are bound to nobody or to the hosts of its slot.
//! * Every wait ends: for a tunnel, for an answer, for a command.
//!
//! # Caveats
//! A switch takes one command at a time: an erasure on one of its drives makes the others wait. `docs/develop/hardware.md` says what of
//! this was proved, and on which hardware.

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
