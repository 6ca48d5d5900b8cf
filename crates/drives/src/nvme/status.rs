//! The status of a drive's answer (NVM Express Base Specification 2.0, 3.3.3.2.1).

use std::fmt;

/// The status of a command that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(u16);

/// Status codes, with the type of each in the upper byte: the same code means different things in different types.
pub mod code {
    pub const INVALID_OPCODE: u16 = 0x001;
    pub const INVALID_FIELD: u16 = 0x002;
    pub const INVALID_NAMESPACE: u16 = 0x00b;
    pub const INSUFFICIENT_CAPACITY: u16 = 0x115;
    pub const IDENTIFIER_UNAVAILABLE: u16 = 0x116;
    pub const ALREADY_ATTACHED: u16 = 0x118;
    pub const NOT_ATTACHED: u16 = 0x11a;
}

const DO_NOT_RETRY: u16 = 1 << 14;

impl Status {
    /// Takes the status word that Linux returns: the status code in bits 7:0, the code's type in bits 10:8, the retry
    /// delay in bits 12:11, the flag More in bit 13, the flag Do Not Retry in bit 14.
    pub fn new(word: u16) -> Self {
        Self(word)
    }

    pub fn code(self) -> u16 {
        self.0 & 0x7ff
    }

    /// Returns whether the drive certainly refused the command before it changed anything. Any other error (an internal
    /// error, an abort, a lost path) may be reported although the work was done (3.3.3.2.1, figures 93 to 97).
    pub fn is_refusal(self) -> bool {
        let code = self.code();
        matches!(code, code::INVALID_OPCODE | code::INVALID_FIELD | code::INVALID_NAMESPACE)
            || code >> 8 == 1
    }

    fn meaning(self) -> &'static str {
        match self.code() {
            code::INVALID_OPCODE => "the drive does not know the command",
            code::INVALID_FIELD => "invalid field",
            code::INVALID_NAMESPACE => "no such namespace",
            0x10a => "invalid block format",
            code::INSUFFICIENT_CAPACITY => "not enough unallocated capacity",
            code::IDENTIFIER_UNAVAILABLE => "no namespace identifier is left",
            code::ALREADY_ATTACHED => "already attached",
            0x119 => "private to another controller",
            code::NOT_ATTACHED => "not attached",
            0x11c | 0x11f => "no such controller, or it is not enabled",
            0x121 => "invalid number of controller resources",
            0x000..=0x0ff => "generic",
            0x100..=0x1ff => "specific to the command",
            0x200..=0x2ff => "media or data integrity",
            0x300..=0x3ff => "path",
            _ => "vendor specific",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVMe status {:03X}h ({}", self.code(), self.meaning())?;
        f.write_str(if self.0 & DO_NOT_RETRY == 0 { ")" } else { "; do not retry)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_includes_the_type_and_no_flags() {
        for (word, code) in [
            (0x0002, code::INVALID_FIELD),
            (0x4002, code::INVALID_FIELD),
            (0x0115, code::INSUFFICIENT_CAPACITY),
            (0x4115, code::INSUFFICIENT_CAPACITY),
            (0x0015, 0x015),
            (0x0118, code::ALREADY_ATTACHED),
            (0x411a, code::NOT_ATTACHED),
            (0x0281, 0x281),
            (0x1915, code::INSUFFICIENT_CAPACITY),
        ] {
            assert_eq!(Status::new(word).code(), code, "{word:04x}");
        }
    }

    #[test]
    fn a_status_is_displayed_as_number_and_meaning() {
        let text = Status::new(0x4115).to_string();
        assert_eq!(text, "NVMe status 115h (not enough unallocated capacity; do not retry)");
        assert_eq!(Status::new(0x0281).to_string(), "NVMe status 281h (media or data integrity)");
    }
}
