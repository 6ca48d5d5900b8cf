//! The text of the unit file that `install` writes.

use std::{ffi::OsString, path::Path};

use thiserror::Error;

/// The Go daemon's unit name: sites have drop-ins and tools for it.
pub(crate) const NAME: &str = "clientmountd.service";
/// The first line of every unit file that `install` wrote. Unit files without this line are
/// neither replaced nor removed.
const MARK: &str =
    "# Written by `clientmount-agent install`, and taken away by `clientmount-agent remove`.";
/// The packaged unit, which `install` writes with another command line.
const PACKAGED: &str = include_str!("../../../systemd/warren-clientmount-agent.service");
const EXEC_START: &str = "ExecStart=/usr/bin/clientmount-agent";
const ORDER: &str = "Wants=network-online.target";

/// An argument that cannot be written into a unit file.
#[derive(Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} cannot be written into a unit file: use arguments in UTF-8 without control characters"
)]
pub(crate) struct UnfitArgument(OsString);

pub(crate) fn text(program: &Path, arguments: &[OsString]) -> Result<String, UnfitArgument> {
    let mut line = format!("ExecStart={}", quote(&program.into())?.replace("$$", "$"));
    for argument in arguments {
        line.push(' ');
        line.push_str(&quote(argument)?);
    }
    let unit = PACKAGED.replace(EXEC_START, &line).replace(
        ORDER,
        // Two agents of one node would replace each other again and again.
        &format!("{ORDER}\nConflicts=warren-clientmount-agent.service"),
    );
    Ok(format!("{MARK}\n{unit}"))
}

/// Returns whether `install` wrote this unit file.
pub(crate) fn is_ours(unit: &str) -> bool {
    unit.starts_with(MARK)
}

/// Quotes an argument so that systemd reads it back unchanged (systemd.service(5)); for this, doubles `%` and `$`.
fn quote(argument: &OsString) -> Result<String, UnfitArgument> {
    let unfit = || UnfitArgument(argument.clone());
    let text = argument.to_str().ok_or_else(unfit)?;
    if text.chars().any(char::is_control) {
        return Err(unfit());
    }
    let escaped = text.replace('%', "%%").replace('$', "$$");
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=/.,:@+%$".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return Ok(escaped);
    }
    Ok(format!("\"{}\"", escaped.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command_line(arguments: &[&str]) -> String {
        let arguments: Vec<_> = arguments.iter().map(OsString::from).collect();
        let unit = text(Path::new("/usr/bin/clientmountd"), &arguments).unwrap();
        unit.lines().find(|line| line.starts_with("ExecStart=")).unwrap().to_owned()
    }

    #[test]
    fn arguments_are_quoted_as_systemd_reads_them() {
        for (argument, quoted) in [
            ("-node-name=c1", "-node-name=c1"),
            ("a b", "\"a b\""),
            ("", "\"\""),
            (";", "\";\""),
            ("100%", "100%%"),
            ("$HOME", "$$HOME"),
            ("say \"hi\"", "\"say \\\"hi\\\"\""),
            ("back\\slash", "\"back\\\\slash\""),
            ("it's", "\"it's\""),
        ] {
            let line = command_line(&[argument]);
            assert_eq!(line, format!("ExecStart=/usr/bin/clientmountd {quoted}"));
        }
    }

    #[test]
    fn an_argument_that_cannot_be_written_into_a_unit_is_refused() {
        let error = text(Path::new("/x"), &["a\nExecStart=/bin/sh".into()]).unwrap_err();
        assert!(error.to_string().contains("control characters"), "{error}");
    }

    #[test]
    fn the_installed_unit_is_the_packaged_unit_with_another_command_line() {
        let unit = text(Path::new("/usr/bin/clientmountd"), &[]).unwrap();
        assert!(is_ours(&unit) && !is_ours(PACKAGED));
        for line in PACKAGED.lines().filter(|line| *line != EXEC_START) {
            assert!(unit.contains(line), "{line}");
        }
        assert!(unit.contains("\nConflicts=warren-clientmount-agent.service\n"));
        assert_eq!(unit.matches("ExecStart=").count(), 1);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "systemd itself judges the unit")]
    fn systemd_accepts_the_unit() {
        let program = std::env::current_exe().unwrap();
        let odd = ["--x=a b", "100%", "$HOME", "say \"hi\"", "back\\slash", "it's", ";", ""];
        let unit = text(&program, &odd.map(OsString::from)).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        std::fs::write(&path, unit).unwrap();
        let verified =
            std::process::Command::new("systemd-analyze").arg("verify").arg(&path).output();
        let missing = verified.is_err().then_some("systemd-analyze is missing: install systemd");
        if !gate::open("systemd", missing) {
            return;
        }
        let verified = verified.unwrap();
        let stderr = String::from_utf8_lossy(&verified.stderr);
        let problems: Vec<_> = stderr.lines().filter(|line| line.contains(NAME)).collect();
        assert!(problems.is_empty(), "{problems:?}");
    }
}
