//! Names of Lustre file systems, and how a management target counts through them.

use std::{collections::BTreeSet, fmt, str::FromStr};

const LENGTH: usize = 8;

/// Eight letters from a to z: a number with 26 digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FsName([u8; LENGTH]);

/// The text is no such name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotCounted;

impl FromStr for FsName {
    type Err = NotCounted;

    fn from_str(text: &str) -> Result<Self, NotCounted> {
        let digits: [u8; LENGTH] = text.as_bytes().try_into().map_err(|_| NotCounted)?;
        if digits.iter().all(u8::is_ascii_lowercase) { Ok(Self(digits)) } else { Err(NotCounted) }
    }
}

impl fmt::Display for FsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|digit| write!(f, "{}", char::from(*digit)))
    }
}

impl FsName {
    /// The name at this place of the count, which goes around after the last.
    #[must_use]
    pub fn at(place: u64) -> Self {
        let mut digits = [b'a'; LENGTH];
        let mut left = place;
        for digit in digits.iter_mut().rev() {
            *digit += u8::try_from(left % 26).unwrap_or_default();
            left /= 26;
        }
        Self(digits)
    }

    /// The next name; after the last comes the first.
    #[must_use]
    pub fn next(mut self) -> Self {
        for digit in self.0.iter_mut().rev() {
            if *digit < b'z' {
                *digit += 1;
                return self;
            }
            *digit = b'a';
        }
        self
    }

    /// The first name from this one on that is not in `taken`. There are 26⁸ names, more than any object can list.
    #[must_use]
    pub fn first_free(mut self, taken: &BTreeSet<String>) -> Self {
        while taken.contains(&self.to_string()) {
            self = self.next();
        }
        self
    }
}

/// Whether a shell and Lustre take this for one file system name (lustre(7): at most 8 characters).
#[must_use]
pub fn can_be_erased(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=LENGTH).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> FsName {
        text.parse().unwrap()
    }

    #[test]
    fn names_are_counted_with_carry_and_begin_again() {
        for (one, next) in [
            ("aaaaaaaa", "aaaaaaab"),
            ("bbbbbbbz", "bbbbbbca"),
            ("azzzzzzz", "baaaaaaa"),
            ("zzzzzzzz", "aaaaaaaa"),
        ] {
            assert_eq!(name(one).next().to_string(), next);
        }
    }

    #[test]
    fn a_place_of_the_count_has_a_name() {
        let last = 26_u64.pow(8) - 1;
        for (place, told) in [
            (0, "aaaaaaaa"),
            (27, "aaaaaabb"),
            (last, "zzzzzzzz"),
            (last + 1, "aaaaaaaa"),
            (u64::MAX, "mxsyumqp"),
        ] {
            assert_eq!(FsName::at(place).to_string(), told, "{place}");
        }
    }

    #[test]
    fn what_is_taken_is_passed_over_also_at_the_end() {
        let taken = ["zzzzzzzz", "aaaaaaaa", "aaaaaaac"].map(str::to_owned).into();
        assert_eq!(name("zzzzzzzz").first_free(&taken).to_string(), "aaaaaaab");
        assert_eq!(name("zzzzzzzy").first_free(&taken).to_string(), "zzzzzzzy");
    }

    #[test]
    fn nothing_else_is_counted_from() {
        for text in ["", "aaaaaaa", "aaaaaaaaa", "AAAAAAAA", "aaaaaaa1", "aaaaaaä", "aaaaaa a"] {
            assert_eq!(text.parse::<FsName>(), Err(NotCounted), "{text:?}");
        }
    }

    #[test]
    fn only_a_word_is_put_after_the_erase_command() {
        assert!(can_be_erased("Scratch1") && can_be_erased("fs_1.a"));
        for text in ["", "-x", "a b", "a;b", "$(a)", "ninechars", "a\nb"] {
            assert!(!can_be_erased(text), "{text:?}");
        }
    }
}
