//! PCIe links, as the switches between hosts and drives see them.

use std::fmt;

use crate::desired::Endpoint;

/// A port of a PCIe switch, and the link there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortLink {
    /// The switch, by its PAX id.
    pub switch: u8,
    pub port: u8,
    pub end: LinkEnd,
    pub state: LinkState,
    /// Lanes in use, and lanes it is made for.
    pub width: Pair,
    /// PCIe generation in use (4 is 16 GT/s), and the one it is made for.
    pub generation: Pair,
}

/// What is, and what should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pair {
    /// As negotiated; 0 when there is no link.
    pub now: u8,
    /// As configured.
    pub full: u8,
}

/// Who is at the other end of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkEnd {
    Host(Endpoint),
    Drive {
        /// Within the rabbit, from 0.
        index: u8,
        /// What is printed beside the slot.
        label: u8,
    },
    OtherSwitch,
}

/// State of a link (PCI Express Base Specification, 4.2.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkState {
    /// Data passes.
    Up,
    /// No device, or no power.
    Down,
    /// Both ends see each other (Polling).
    Starting,
    /// They negotiate, or do it again (Configuration, Recovery).
    Training,
    /// The port is switched off.
    Disabled,
    /// A state that is none of these.
    Other(u8),
    /// The switch could not be asked, for this reason: neither up nor down.
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
