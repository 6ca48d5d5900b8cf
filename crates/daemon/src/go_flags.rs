//! Translates command lines written for Go's `flag` package into those that clap reads.
//!
//! Go takes one dash or two, a value behind `=` or as the next word, a switch with or without a value, and of a flag given
//! twice the last. Sites' units and DaemonSets use all of it.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
};

/// A flag that a Go daemon knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoFlag {
    /// A switch: `-mock`, `--mock=false`. Clap gets it as `--mock=true` or `--mock=false`.
    Switch(&'static str),
    /// A flag with a value: `-node-name x`, `--node-name=x`. Clap gets it as `--node-name=x`.
    Value(&'static str),
}

impl GoFlag {
    fn name(self) -> &'static str {
        match self {
            Self::Switch(name) | Self::Value(name) => name,
        }
    }
}

/// The same command line, program's name first, with every flag of `known` as `--flag=value` and only where it was given
/// last. Everything else, and everything behind `--`, stays as it is, and clap reports what is wrong with it.
#[must_use]
pub fn translate(args: impl IntoIterator<Item = OsString>, known: &[GoFlag]) -> Vec<OsString> {
    let mut words: Vec<Word> = Vec::new();
    let mut args = args.into_iter();
    words.extend(args.next().map(Word::other));
    while let Some(arg) = args.next() {
        if arg == "--" {
            words.push(Word::other(arg));
            words.extend(args.by_ref().map(Word::other));
        } else if let Some((flag, value)) = recognise(&arg, known) {
            let value = match flag {
                GoFlag::Switch(_) => Some(value.map_or_else(|| "true".into(), switched)),
                // Go takes the next word whatever it looks like.
                GoFlag::Value(_) => value.or_else(|| args.next()),
            };
            words.retain(|word| word.flag != Some(flag));
            words.push(Word { flag: Some(flag), text: written(flag, value) });
        } else {
            words.push(Word::other(arg));
        }
    }
    words.into_iter().map(|word| word.text).collect()
}

struct Word {
    flag: Option<GoFlag>,
    text: OsString,
}

impl Word {
    fn other(text: OsString) -> Self {
        Self { flag: None, text }
    }
}

fn recognise(arg: &OsStr, known: &[GoFlag]) -> Option<(GoFlag, Option<OsString>)> {
    let bytes = arg.as_bytes().strip_prefix(b"-")?;
    let bytes = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let (name, value) = match bytes.iter().position(|byte| *byte == b'=') {
        Some(equals) => (&bytes[..equals], Some(OsString::from_vec(bytes[equals + 1..].to_vec()))),
        None => (bytes, None),
    };
    let flag = known.iter().find(|flag| flag.name().as_bytes() == name)?;
    Some((*flag, value))
}

/// The spellings of strconv.ParseBool; clap reports any other.
fn switched(value: OsString) -> OsString {
    match value.to_str() {
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => "true".into(),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => "false".into(),
        _ => value,
    }
}

fn written(flag: GoFlag, value: Option<OsString>) -> OsString {
    let mut text = OsString::from(format!("--{}", flag.name()));
    if let Some(value) = value {
        text.push("=");
        text.push(value);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [GoFlag; 3] =
        [GoFlag::Switch("mock"), GoFlag::Value("node-name"), GoFlag::Value("controller")];

    fn translated(args: &[&str]) -> Vec<String> {
        let args = ["agent"].iter().chain(args).map(OsString::from);
        let out = translate(args, &KNOWN);
        assert_eq!(out[0], "agent");
        out[1..].iter().map(|word| word.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn go_is_read_as_go_reads_it() {
        for (given, read) in [
            (&[][..], &[][..]),
            (&["-node-name", "c1"], &["--node-name=c1"][..]),
            (&["--node-name", "c1"], &["--node-name=c1"]),
            (&["-node-name=c1"], &["--node-name=c1"]),
            (&["--node-name=a=b"], &["--node-name=a=b"]),
            (&["-node-name="], &["--node-name="]),
            (&["--node-name", "-mock"], &["--node-name=-mock"]),
            (&["-mock"], &["--mock=true"]),
            (&["--mock=T"], &["--mock=true"]),
            (&["--mock=0"], &["--mock=false"]),
            (&["-mock", "false"], &["--mock=true", "false"]),
        ] {
            assert_eq!(translated(given), read, "{given:?}");
        }
    }

    #[test]
    fn the_last_wins() {
        for (given, read) in [
            (&["--mock", "--mock=false"][..], &["--mock=false"][..]),
            (&["-node-name", "a", "-mock", "--node-name=b"], &["--mock=true", "--node-name=b"]),
        ] {
            assert_eq!(translated(given), read, "{given:?}");
        }
    }

    #[test]
    fn what_go_does_not_know_is_left_to_our_parser() {
        for given in [
            &["--node", "c1", "-h", "--log-level=debug"][..],
            &["---mock"],
            &["-mocks", "--mock-file=x"],
            &["install"],
            &["-"],
            &["--", "-mock", "--mock"],
            // Nonsense that our parser names: a value is missing, a switch that is neither on nor off.
            &["--node-name"],
            &["--mock=perhaps"],
        ] {
            assert_eq!(translated(given), given, "{given:?}");
        }
    }

    #[test]
    fn words_are_passed_and_flags_behind_them_are_read() {
        assert_eq!(translated(&["install", "-node-name", "c1"]), ["install", "--node-name=c1"]);
    }

    #[test]
    fn a_value_need_not_be_text() {
        let odd = OsString::from_vec(vec![
            b'-', b'n', b'o', b'd', b'e', b'-', b'n', b'a', b'm', b'e', b'=', 0xff,
        ]);
        let out = translate([OsString::from("agent"), odd], &KNOWN);
        assert_eq!(out[1].as_bytes(), b"--node-name=\xff");
    }
}
