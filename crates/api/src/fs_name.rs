//! File system names that a Lustre management target assigns to file systems, and the order in which it assigns them.

use std::{collections::BTreeSet, fmt, str::FromStr};

const LENGTH: usize = 8;

/// A file system name of eight letters from a to z, ordered as a number in base 26.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FsName([u8; LENGTH]);

/// Error: the text is not eight letters from a to z.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotEightLetters;

impl FromStr for FsName {
    type Err = NotEightLetters;

    fn from_str(text: &str) -> Result<Self, NotEightLetters> {
        let digits: [u8; LENGTH] = text.as_bytes().try_into().map_err(|_| NotEightLetters)?;
        let is_name = digits.iter().all(u8::is_ascii_lowercase);
        if is_name { Ok(Self(digits)) } else { Err(NotEightLetters) }
    }
}

impl fmt::Display for FsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|digit| write!(f, "{}", char::from(*digit)))
    }
}

impl FsName {
    /// Returns the name with the number `place` modulo 26⁸ in this order.
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

    /// Returns the next name; after the last name, returns the first.
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

    /// Returns the first name that is not in `names_in_use`, from `self` on. Such a name always exists: there are 26⁸ names,
    /// more than an object can list.
    #[must_use]
    pub fn first_free(mut self, names_in_use: &BTreeSet<String>) -> Self {
        while names_in_use.contains(&self.to_string()) {
            self = self.next();
        }
        self
    }
}

/// Returns whether the text may be the argument of the erase command: it must be a valid file system name of Lustre
/// (lustre(7): at most 8 characters), and a single word for a shell.
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
    fn next_carries_and_begins_again_after_the_last_name() {
        for (before, next) in [
            ("aaaaaaaa", "aaaaaaab"),
            ("bbbbbbbz", "bbbbbbca"),
            ("azzzzzzz", "baaaaaaa"),
            ("zzzzzzzz", "aaaaaaaa"),
        ] {
            assert_eq!(name(before).next().to_string(), next);
        }
    }

    #[test]
    fn at_returns_the_name_with_this_number() {
        let last = 26_u64.pow(8) - 1;
        for (place, name) in [
            (0, "aaaaaaaa"),
            (27, "aaaaaabb"),
            (last, "zzzzzzzz"),
            (last + 1, "aaaaaaaa"),
            (u64::MAX, "mxsyumqp"),
        ] {
            assert_eq!(FsName::at(place).to_string(), name, "{place}");
        }
    }

    #[test]
    fn taken_names_are_skipped_also_after_the_last_name() {
        let names_in_use = ["zzzzzzzz", "aaaaaaaa", "aaaaaaac"].map(str::to_owned).into();
        assert_eq!(name("zzzzzzzz").first_free(&names_in_use).to_string(), "aaaaaaab");
        assert_eq!(name("zzzzzzzy").first_free(&names_in_use).to_string(), "zzzzzzzy");
    }

    #[test]
    fn only_eight_lower_case_letters_are_parsed() {
        for text in ["", "aaaaaaa", "aaaaaaaaa", "AAAAAAAA", "aaaaaaa1", "aaaaaaä", "aaaaaa a"] {
            assert_eq!(text.parse::<FsName>(), Err(NotEightLetters), "{text:?}");
        }
    }

    #[test]
    fn only_a_single_plain_word_may_follow_the_erase_command() {
        assert!(can_be_erased("Scratch1") && can_be_erased("fs_1.a"));
        for text in ["", "-x", "a b", "a;b", "$(a)", "ninechars", "a\nb"] {
            assert!(!can_be_erased(text), "{text:?}");
        }
    }
}
