//! Runs in the pods of MPI instead of sshd and ssh: a small static program that needs nothing from the image.
//!
//! ```text
//! launcher: podhelper wait ─ every worker answers ─► mpirun ─► rsh HOST COMMAND… ─┐
//!                                                                                 │ TLS 1.3, keys of this attempt alone
//! worker:   podhelper worker ─ checks the keys ─► starts the command ◄────────────┘
//! ```
//! # Commands, peers and signals
//! * A program that the launcher names may be a shell, and then gets its words. Patterns of file names stay as they
//!   are.
//! * A peer that proves no keys holds its connection for at most 5 s, and delays no other peer.
//! * Signals to a pod reach all processes beneath the first process of its worker, which reaps those that end.
//! * Without Kubernetes the rabbits' agents make a network for each run. Its devices are inside the pods, and vanish
//!   with them.
//!
//! # Guarantees
//! * Both ends prove that they have the keys of the same attempt before they exchange messages: the keys of another
//!   attempt are rejected.
//! * No shell sees the launcher's command: podhelper splits it into words, and rejects by name what needs a shell.
//! * A command on a worker ends with the launcher's connection, unless it became a daemon as Open MPI's does. A
//!   vanished peer is noticed within half a minute.
//! * When a pod ends, init forwards the signal to all processes, daemons included, and waits for them as long as the
//!   pod may take.
//! * No process here calls the Kubernetes API.

mod args;
mod command;
mod init;
mod install;
pub mod keys;
mod message;
mod rsh;
mod tcp;
mod wait;
mod worker;

use std::{path::Path, process::ExitCode};

use clap::Parser;

use crate::args::{Args, Verb};

/// Name of the program as mpirun's remote shell.
pub const AGENT: &str = "rsh";
/// Port of a worker, in the network of its pod only.
pub const PORT: u16 = 2222;

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let verb = if Path::new(&name).file_name().is_some_and(|name| name == AGENT) {
        // mpirun passes ssh's options, which our own command line does not have.
        match rsh::Rsh::parse(words) {
            Ok(rsh) => Verb::Rsh(rsh),
            Err(error) => return report(&error),
        }
    } else {
        Args::parse().verb
    };
    match run(verb) {
        Ok(code) => code,
        Err(error) => report(&*error),
    }
}

fn run(verb: Verb) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = match verb {
        Verb::Install(install) => install::install(&install.directory).map(|()| 0)?,
        Verb::Worker(worker) if nix::unistd::getpid().as_raw() == 1 && !worker.is_child => {
            runtime.block_on(init::run())?
        }
        Verb::Worker(worker) => runtime.block_on(worker::run(&worker.keys))?,
        Verb::Wait(wait) => runtime.block_on(wait::run(&wait)).map(|()| 0)?,
        Verb::Peers(peers) => runtime.block_on(wait::peers(&peers)).map(|()| 0)?,
        Verb::DiscoverHosts(discover) => {
            runtime.block_on(wait::hosts_that_answer(&discover)).map(|hosts| print(&hosts))?
        }
        Verb::Rsh(rsh) => runtime.block_on(rsh::run(&rsh))?,
    };
    // Do not wait for a name lookup that still runs.
    runtime.shutdown_background();
    Ok(ExitCode::from(code))
}

#[expect(clippy::print_stdout, reason = "it is what the caller reads")]
fn print(hosts: &[String]) -> u8 {
    hosts.iter().for_each(|host| println!("{host}"));
    0
}

#[expect(clippy::print_stderr, reason = "the pod's log is where people look for it")]
fn report(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("podhelper: {}", causes::chain(error));
    ExitCode::FAILURE
}
