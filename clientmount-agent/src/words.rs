//! The words that the Go daemon takes in place of flags: install, remove, start, stop, status, version.
//!
//! `install` and `remove` write and take away `clientmountd.service`, and only one that `install` wrote; the rest is
//! systemctl's. Removing or stopping leaves everything mounted.

mod service;
mod systemctl;
mod unit;

use std::{error::Error, ffi::OsString, process::ExitCode};

use thiserror::Error;

use crate::config::Args;
use service::Service;
use systemctl::systemctl;

/// LSB's exit code for "insufficient privilege".
const NOT_ROOT: u8 = 4;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// Make the service, with these arguments.
    Install(Vec<OsString>),
    /// Take it away.
    Remove,
    /// Have it started.
    Start,
    /// Have it stopped.
    Stop,
    /// Show how it is.
    Status,
    /// Say the version.
    Version,
}

/// A word with what does not belong to it.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{word} takes no arguments, but {argument:?} was given: leave it out")]
pub struct Superfluous {
    word: &'static str,
    argument: OsString,
}

impl Word {
    /// The word of a command line, whose first argument is the program; none when it begins with a flag.
    ///
    /// # Errors
    /// When something follows a word that stands alone.
    pub fn read(arguments: &[OsString]) -> Option<Result<Self, Superfluous>> {
        let (first, rest) = arguments.get(1..)?.split_first()?;
        let (word, name) = match first.to_str()? {
            "install" => return Some(Ok(Self::Install(rest.to_vec()))),
            "remove" => (Self::Remove, "remove"),
            "start" => (Self::Start, "start"),
            "stop" => (Self::Stop, "stop"),
            "status" => (Self::Status, "status"),
            "version" => (Self::Version, "version"),
            _ => return None,
        };
        Some(match rest.first() {
            None => Ok(word),
            Some(argument) => Err(Superfluous { word: name, argument: argument.clone() }),
        })
    }

    /// Does what was asked for, and says so. Exit codes: those of systemctl where it answers, 4 when root is needed.
    #[must_use]
    pub fn obey(self, program: &OsString) -> ExitCode {
        let changes = !matches!(self, Self::Status | Self::Version);
        if changes && !nix::unistd::geteuid().is_root() {
            complain("root is needed to change a service: use sudo");
            return ExitCode::from(NOT_ROOT);
        }
        let service = Service::of_this_host();
        let outcome = match self {
            Self::Version => {
                say(&format!("Version {}", env!("CARGO_PKG_VERSION")));
                return ExitCode::SUCCESS;
            }
            Self::Install(arguments) => install(&service, program, &arguments),
            Self::Remove => service.remove(&systemctl).map_err(Into::into),
            Self::Start => return passed_on(&["start", unit::NAME]),
            Self::Stop => return passed_on(&["stop", unit::NAME]),
            Self::Status => return passed_on(&["status", "--no-pager", unit::NAME]),
        };
        match outcome {
            Ok(done) => {
                say(&done);
                ExitCode::SUCCESS
            }
            Err(error) => {
                complain(&daemon::chain(&*error));
                ExitCode::FAILURE
            }
        }
    }
}

/// Says why a word is not obeyed; bad usage is exit code 2.
#[must_use]
pub fn misunderstood(error: &Superfluous) -> ExitCode {
    complain(&error.to_string());
    ExitCode::from(2)
}

fn install(
    service: &Service,
    program: &OsString,
    arguments: &[OsString],
) -> Result<String, Box<dyn Error>> {
    // What the agent would refuse at every start is refused now. What is missing may yet come from a drop-in.
    let line = std::iter::once(program.clone()).chain(arguments.iter().cloned());
    if let Err(error) = Args::read(line) {
        error.exit();
    }
    let unit = unit::text(&service::resolved(program)?, arguments)?;
    Ok(service.install(&unit, &systemctl)?)
}

fn passed_on(words: &[&str]) -> ExitCode {
    match systemctl(words) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            complain(&daemon::chain(&error));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "an administrator typed a word and reads the answer")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "an administrator typed a word and reads the answer")]
fn complain(text: &str) {
    eprintln!("error: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Option<Result<Word, Superfluous>> {
        let line: Vec<_> = std::iter::once(&"clientmountd").chain(words).map(Into::into).collect();
        Word::read(&line)
    }

    #[test]
    fn words_stand_first() {
        assert_eq!(read(&["version"]), Some(Ok(Word::Version)));
        assert_eq!(read(&["status"]), Some(Ok(Word::Status)));
        let arguments = vec!["-node-name".into(), "c1".into()];
        assert_eq!(read(&["install", "-node-name", "c1"]), Some(Ok(Word::Install(arguments))));
        for none in [&[][..], &["--node", "start"], &["restart"], &["--version"]] {
            assert_eq!(read(none), None, "{none:?}");
        }
        let error = read(&["remove", "--force"]).unwrap().unwrap_err().to_string();
        assert_eq!(error, "remove takes no arguments, but \"--force\" was given: leave it out");
    }
}
