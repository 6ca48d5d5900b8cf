//! The subcommands of the Go daemon: install, remove, start, stop, status, version.
//!
//! `install` writes the unit file `clientmountd.service`, `remove` deletes a unit file that `install` wrote, and
//! systemctl does everything else. Removing or stopping the service leaves everything mounted.

mod service;
mod systemctl;
mod unit;

use std::{error::Error, ffi::OsString, process::ExitCode};

use thiserror::Error;

use crate::config::{Args, called_clientmountd};
use service::Service;
use systemctl::systemctl;

/// LSB's exit code for "insufficient privilege".
const NOT_ROOT: u8 = 4;

/// A command of the administrator that the program carries out instead of running the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subcommand {
    /// Install the service, which runs the agent with these arguments.
    Install(Vec<OsString>),
    /// Stop the service and remove its unit file.
    Remove,
    /// Start the installed service.
    Start,
    /// Stop the running service.
    Stop,
    /// Show the service's status.
    Status,
    /// Print the program's version.
    Version,
}

/// A subcommand that takes no arguments was given an argument.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{subcommand} takes no arguments, but {argument:?} was given: leave it out")]
pub struct UnexpectedArgument {
    subcommand: &'static str,
    argument: OsString,
}

impl Subcommand {
    /// Returns the subcommand of a command line, whose first argument is the program; `None` if the command line has no
    /// subcommand.
    pub fn read(arguments: &[OsString]) -> Option<Result<Self, UnexpectedArgument>> {
        let (first, rest) = arguments.get(1..)?.split_first()?;
        let (subcommand, name) = match first.to_str()? {
            "install" => return Some(Ok(Self::Install(rest.to_vec()))),
            "remove" => (Self::Remove, "remove"),
            "start" => (Self::Start, "start"),
            "stop" => (Self::Stop, "stop"),
            // In a program called `clientmount-agent`, `status` is the verb that shows the agent's mounts.
            "status" if called_clientmountd(arguments.first()) => (Self::Status, "status"),
            "version" => (Self::Version, "version"),
            _ => return None,
        };
        Some(match rest.first() {
            None => Ok(subcommand),
            Some(argument) => {
                Err(UnexpectedArgument { subcommand: name, argument: argument.clone() })
            }
        })
    }

    /// Runs the subcommand and prints what it did. Exit codes: systemctl's, 4 when root is needed,
    /// 1 for other failures.
    #[must_use]
    pub fn run(self, program: &OsString) -> ExitCode {
        let changes = !matches!(self, Self::Status | Self::Version);
        if changes && !nix::unistd::geteuid().is_root() {
            print_error("root is needed to change a service: use sudo");
            return ExitCode::from(NOT_ROOT);
        }
        let service = Service::of_this_host();
        let outcome = match self {
            Self::Version => {
                print(&format!("Version {}", env!("CARGO_PKG_VERSION")));
                return ExitCode::SUCCESS;
            }
            Self::Install(arguments) => install(&service, program, &arguments),
            Self::Remove => service.remove(&systemctl).map_err(Into::into),
            Self::Start => return run_systemctl(&["start", unit::NAME]),
            Self::Stop => return run_systemctl(&["stop", unit::NAME]),
            Self::Status => return run_systemctl(&["status", "--no-pager", unit::NAME]),
        };
        match outcome {
            Ok(done) => {
                print(&done);
                ExitCode::SUCCESS
            }
            Err(error) => {
                print_error(&daemon::chain(&*error));
                ExitCode::FAILURE
            }
        }
    }
}

/// Prints why a subcommand was refused; the exit code is 2, bad usage.
#[must_use]
pub fn reject(error: &UnexpectedArgument) -> ExitCode {
    print_error(&error.to_string());
    ExitCode::from(2)
}

fn install(
    service: &Service,
    program: &OsString,
    arguments: &[OsString],
) -> Result<String, Box<dyn Error>> {
    // Refuses arguments that the agent would refuse at every start. Does not check whether arguments are missing,
    // because a drop-in of the unit may add them.
    let line = std::iter::once(program.clone()).chain(arguments.iter().cloned());
    if let Err(error) = Args::read(line) {
        error.exit();
    }
    let unit = unit::text(&service::absolute_path(program)?, arguments)?;
    Ok(service.install(&unit, &systemctl)?)
}

fn run_systemctl(arguments: &[&str]) -> ExitCode {
    match systemctl(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            print_error(&daemon::chain(&error));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "an administrator typed a subcommand and reads the answer")]
fn print(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "an administrator typed a subcommand and reads the answer")]
fn print_error(text: &str) {
    eprintln!("error: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Option<Result<Subcommand, UnexpectedArgument>> {
        let line: Vec<_> =
            std::iter::once(&"clientmountd").chain(arguments).map(Into::into).collect();
        Subcommand::read(&line)
    }

    #[test]
    fn a_subcommand_is_recognised_only_as_the_first_argument() {
        assert_eq!(read(&["version"]), Some(Ok(Subcommand::Version)));
        assert_eq!(read(&["status"]), Some(Ok(Subcommand::Status)));
        let arguments = vec!["-node-name".into(), "c1".into()];
        assert_eq!(
            read(&["install", "-node-name", "c1"]),
            Some(Ok(Subcommand::Install(arguments)))
        );
        for none in [&[][..], &["--node", "start"], &["restart"], &["--version"]] {
            assert_eq!(read(none), None, "{none:?}");
        }
        let error = read(&["remove", "--force"]).unwrap().unwrap_err().to_string();
        assert_eq!(error, "remove takes no arguments, but \"--force\" was given: leave it out");
    }
}
