//! The status of a drive's answer (NVM Express Base Specification 2.0, 3.3.3.2.1).

use std::fmt;

/// The status of a command that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status(u16);

/// A status, by its type and code: the same code means different things in different types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    InvalidOpcode,
    InvalidField,
    InvalidNamespace,
    InvalidFormat,
    InsufficientCapacity,
    IdentifierUnavailable,
    AlreadyAttached,
    Private,
    NotAttached,
    InvalidController,
    InvalidResources,
    Other { kind: u8, code: u8 },
}

const DO_NOT_RETRY: u16 = 1 << 14;

impl Status {
    /// From what Linux returns: status code in bits 7:0, its type in 10:8, retry delay in 12:11, More, Do Not Retry.
    pub(super) fn new(word: u16) -> Self {
        Self(word)
    }

    pub(super) fn code(self) -> Code {
        let [code, upper] = self.0.to_le_bytes();
        match (upper & 0b111, code) {
            (0, 0x01) => Code::InvalidOpcode,
            (0, 0x02) => Code::InvalidField,
            (0, 0x0b) => Code::InvalidNamespace,
            (1, 0x0a) => Code::InvalidFormat,
            (1, 0x15) => Code::InsufficientCapacity,
            (1, 0x16) => Code::IdentifierUnavailable,
            (1, 0x18) => Code::AlreadyAttached,
            (1, 0x19) => Code::Private,
            (1, 0x1a) => Code::NotAttached,
            (1, 0x1c | 0x1f) => Code::InvalidController,
            (1, 0x21) => Code::InvalidResources,
            (kind, code) => Code::Other { kind, code },
        }
    }

    /// Whether the drive refused before it did anything, so that a retry would fail too. Other errors, as an internal
    /// error, an abort or a lost path, may come after the work is done (Base 3.3.3.2.1, figures 93 to 97).
    pub(super) fn is_refusal(self) -> bool {
        match self.code() {
            Code::Other { kind, .. } => kind == 1,
            _ => true,
        }
    }

    fn meaning(self) -> &'static str {
        match self.code() {
            Code::InvalidOpcode => "the drive does not know the command",
            Code::InvalidField => "invalid field",
            Code::InvalidNamespace => "no such namespace",
            Code::InvalidFormat => "invalid block format",
            Code::InsufficientCapacity => "not enough unallocated capacity",
            Code::IdentifierUnavailable => "no namespace identifier is left",
            Code::AlreadyAttached => "already attached",
            Code::Private => "private to another controller",
            Code::NotAttached => "not attached",
            Code::InvalidController => "no such controller, or it is not enabled",
            Code::InvalidResources => "not so many controller resources",
            Code::Other { kind: 0, .. } => "generic",
            Code::Other { kind: 1, .. } => "specific to the command",
            Code::Other { kind: 2, .. } => "media or data integrity",
            Code::Other { kind: 3, .. } => "path",
            Code::Other { .. } => "vendor specific",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [code, upper] = self.0.to_le_bytes();
        write!(f, "NVMe status {:X}{code:02X}h ({}", upper & 0b111, self.meaning())?;
        f.write_str(if self.0 & DO_NOT_RETRY == 0 { ")" } else { "; do not retry)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_told_apart_by_their_type() {
        for (word, code) in [
            (0x0002, Code::InvalidField),
            (0x4002, Code::InvalidField),
            (0x0115, Code::InsufficientCapacity),
            (0x4115, Code::InsufficientCapacity),
            (0x0015, Code::Other { kind: 0, code: 0x15 }),
            (0x0118, Code::AlreadyAttached),
            (0x411a, Code::NotAttached),
            (0x0281, Code::Other { kind: 2, code: 0x81 }),
            (0x1915, Code::InsufficientCapacity),
        ] {
            assert_eq!(Status::new(word).code(), code, "{word:04x}");
        }
    }

    #[test]
    fn a_status_is_told_with_its_number_and_in_words() {
        let text = Status::new(0x4115).to_string();
        assert_eq!(text, "NVMe status 115h (not enough unallocated capacity; do not retry)");
        assert_eq!(Status::new(0x0281).to_string(), "NVMe status 281h (media or data integrity)");
    }
}
