//! Accesses the drives of a rabbit behind its two Microchip Switchtec PAX switches, whose firmware passes admin
//! commands on to the drives.
//!
//! **Experimental**: no test has met a real switch. The tests use a simulated switch, which answers as the public sources
//! say that a switch answers; `docs/develop/hardware.md` lists what was tested on which hardware. Crate `drives` has all
//! that a drive does; this crate only finds drives ([`drives::Switches`]) and reaches them
//! ([`drives::nvme::PhysicalFunction`]).
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

mod behind;
mod bindings;
mod command;
mod dump;
mod fabric;
#[cfg(test)]
mod fake;
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

pub use self::fabric::Fabric;
