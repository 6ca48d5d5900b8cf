//! The work that makes a drive ready for its hosts.

use std::fmt;

/// A change that makes one drive ready. It changes no data of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriveAction {
    /// Record for their allocations the namespaces that an interrupted creation left without a record.
    SettleIntents,
    /// Record the slot and the serial number of the drive.
    RecordSlot,
    /// Take the resources of the virtual functions from the physical function, and reset its controller: only the reset
    /// makes them free.
    FreeResources,
    /// Enable this many virtual functions without binding drivers: a driver cannot start an offline controller.
    EnableFunctions(u16),
    /// Give queues and interrupts to the virtual functions with these numbers, and bring them online.
    StartFunctions(Vec<u16>),
    /// Bind this many virtual functions to their hosts.
    BindFunctions(u16),
}

impl DriveAction {
    /// Returns the word for the step in journals.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::SettleIntents => "settle-intents",
            Self::RecordSlot => "record-slot",
            Self::FreeResources => "free-resources",
            Self::EnableFunctions(_) => "enable-functions",
            Self::StartFunctions(_) => "start-functions",
            Self::BindFunctions(_) => "bind-functions",
        }
    }

    /// Returns whether the drive cannot be used without this change. A drive without a recorded slot is just never
    /// reported as replaced.
    pub fn is_vital(&self) -> bool {
        *self != Self::RecordSlot
    }
}

impl fmt::Display for DriveAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SettleIntents => f.write_str("record namespaces of interrupted creations"),
            Self::RecordSlot => f.write_str("record the slot"),
            Self::FreeResources => {
                f.write_str("free the resources of virtual functions and reset the controller")
            }
            Self::EnableFunctions(count) => write!(f, "enable {count} virtual functions"),
            Self::StartFunctions(numbers) => {
                write!(f, "bring online virtual functions {}", ranges(numbers))
            }
            Self::BindFunctions(count) => {
                write!(f, "bind {count} virtual functions to their hosts")
            }
        }
    }
}

/// Formats ascending numbers as ranges, for example `1-5,7`.
fn ranges(numbers: &[u16]) -> String {
    let runs = numbers.chunk_by(|number, next| number + 1 == *next);
    let range = |run: &[u16]| match run {
        [first, .., last] => format!("{first}-{last}"),
        [only] => only.to_string(),
        [] => String::new(),
    };
    runs.map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_functions_are_shown_as_ranges() {
        let text = DriveAction::StartFunctions(vec![1, 2, 3, 7, 9, 10]).to_string();
        assert_eq!(text, "bring online virtual functions 1-3,7,9-10");
    }
}
