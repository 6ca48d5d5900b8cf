//! Translates command lines written for Go's `flag` package into the syntax of clap.
//!
//! Go accepts one dash or two, a value after `=` or as the next argument, and a switch with or without a value.
//! If a flag occurs twice, the last occurrence has effect. The systemd units and DaemonSets of the sites use
//! all of these forms.

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

/// Translates a command line, which begins with the program's name. Each flag in `known` becomes one `--flag=value` at
/// the place of its last occurrence. Other arguments, and all arguments after `--`, stay unchanged, so that clap
/// reports mistakes in them.
#[must_use]
pub fn translate(args: impl IntoIterator<Item = OsString>, known: &[GoFlag]) -> Vec<OsString> {
    let mut arguments: Vec<Argument> = Vec::new();
    let mut args = args.into_iter();
    arguments.extend(args.next().map(Argument::other));
    while let Some(arg) = args.next() {
        if arg == "--" {
            arguments.push(Argument::other(arg));
            arguments.extend(args.by_ref().map(Argument::other));
        } else if let Some((flag, value)) = recognise(&arg, known) {
            let value = match flag {
                GoFlag::Switch(_) => Some(value.map_or_else(|| "true".into(), switch_value)),
                // Go uses the next argument as the value, even if that argument begins with a dash.
                GoFlag::Value(_) => value.or_else(|| args.next()),
            };
            arguments.retain(|argument| argument.flag != Some(flag));
            arguments.push(Argument { flag: Some(flag), text: for_clap(flag, value) });
        } else {
            arguments.push(Argument::other(arg));
        }
    }
    arguments.into_iter().map(|argument| argument.text).collect()
}

/// One argument, and the known flag that it sets.
struct Argument {
    flag: Option<GoFlag>,
    text: OsString,
}

impl Argument {
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

/// Translates the spellings that Go's strconv.ParseBool accepts; clap reports any other spelling as a mistake.
fn switch_value(value: OsString) -> OsString {
    match value.to_str() {
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => "true".into(),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => "false".into(),
        _ => value,
    }
}

fn for_clap(flag: GoFlag, value: Option<OsString>) -> OsString {
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
        out[1..].iter().map(|argument| argument.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn each_form_of_a_go_flag_becomes_one_flag_with_equals_sign() {
        for (arguments, expected) in [
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
            assert_eq!(translated(arguments), expected, "{arguments:?}");
        }
    }

    #[test]
    fn of_a_repeated_flag_only_the_last_occurrence_is_kept() {
        for (arguments, expected) in [
            (&["--mock", "--mock=false"][..], &["--mock=false"][..]),
            (&["-node-name", "a", "-mock", "--node-name=b"], &["--mock=true", "--node-name=b"]),
        ] {
            assert_eq!(translated(arguments), expected, "{arguments:?}");
        }
    }

    #[test]
    fn unknown_flags_other_arguments_and_mistakes_are_passed_on_unchanged() {
        for arguments in [
            &["--node", "c1", "-h", "--log-level=debug"][..],
            &["---mock"],
            &["-mocks", "--mock-file=x"],
            &["install"],
            &["-"],
            &["--", "-mock", "--mock"],
            // Mistakes that clap reports: a missing value, and a switch that is neither on nor off.
            &["--node-name"],
            &["--mock=perhaps"],
        ] {
            assert_eq!(translated(arguments), arguments, "{arguments:?}");
        }
    }

    #[test]
    fn flags_after_a_subcommand_are_translated() {
        assert_eq!(translated(&["install", "-node-name", "c1"]), ["install", "--node-name=c1"]);
    }

    #[test]
    fn a_value_need_not_be_utf8() {
        let odd = OsString::from_vec(vec![
            b'-', b'n', b'o', b'd', b'e', b'-', b'n', b'a', b'm', b'e', b'=', 0xff,
        ]);
        let out = translate([OsString::from("agent"), odd], &KNOWN);
        assert_eq!(out[1].as_bytes(), b"--node-name=\xff");
    }
}
