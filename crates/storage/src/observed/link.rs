//! PCIe links, as the switches between hosts and drives report them.

use std::fmt;

use crate::desired::Endpoint;

/// A port of a PCIe switch, and the link there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortLink {
    /// PAX id of the switch, 0 or 1: the number that the switch, a Microchip Switchtec PAX, reports for itself.
    pub switch: u8,
    pub port: u8,
    pub end: LinkEnd,
    pub state: LinkState,
    /// Number of lanes in use, and number of lanes that the switch configures for the port.
    pub width: Pair,
    /// PCIe generation in use (4 is 16 GT/s), and the generation that the switch configures for the port.
    pub generation: Pair,
}

/// A negotiated value, and the value that the switch is configured for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pair {
    /// Negotiated value; 0 when there is no link.
    pub now: u8,
    /// The value for which the switch is configured.
    pub full: u8,
}

/// The device at the other end of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkEnd {
    Host(Endpoint),
    Drive {
        /// Index of the slot within the rabbit, from 0.
        index: u8,
        /// Label printed beside the slot.
        label: u8,
    },
    OtherSwitch,
}

/// State of a link (PCI Express Base Specification, 4.2.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkState {
    /// The link carries data.
    Up,
    /// The port has no device, or the device has no power.
    Down,
    /// Both ends detect each other (Polling).
    Starting,
    /// Both ends negotiate, for the first time or again (Configuration, Recovery).
    Training,
    /// The port is switched off.
    Disabled,
    /// Any other state, by its number.
    Other(u8),
    /// The switch did not answer, for this reason: the link may be up or down.
    Unknown(String),
}

impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up => f.write_str("up"),
            Self::Down => f.write_str("down"),
            Self::Starting => f.write_str("starting"),
            Self::Training => f.write_str("training"),
            Self::Disabled => f.write_str("disabled"),
            Self::Other(state) => write!(f, "in state {state:02X}h"),
            Self::Unknown(why) => write!(f, "unknown ({why})"),
        }
    }
}
