//! Drives of a rabbit: behind two Microchip Switchtec PAX switches, whose firmware carries admin commands to them.
//!
//! ```text
//! Fabric ─ links, dump ─► Found ─► Behind ─ tunnel ─► AdminQueue ─► the drive, as on any other way
//!                                     └─ reset, online, bind: every virtual function at its host
//! ```
//! # Guarantees
//! * A switch is its PAX id, a drive its NQN; names of devices and numbers of functions are looked up each time.
//! * A drive is brought up only if its functions are bound to nobody or to the hosts of its slot.
//! * Every wait ends: for a tunnel, for an answer, for a command.
//!
//! # Caveats
//! A switch takes one command at a time: an erase on one of its drives keeps the others waiting. What is proved of this, and on
//! what, is in `docs/hardware.md`.

mod behind;
mod bindings;
mod command;
mod dump;
mod fabric;
mod links;
mod record;
mod register;
#[cfg(test)]
pub(super) mod simulated;
mod switch;
#[cfg(test)]
mod tests;
mod topology;
mod transport;
mod tunnel;
mod wire;

pub(super) use self::{behind::Behind, fabric::Fabric, topology::label};
