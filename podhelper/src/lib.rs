//! What runs in the pods of MPI, in the place of sshd and ssh: a small static program that needs nothing of the image.
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
//! * Both ends prove that they have the keys of the same attempt, before anything is said: the keys of another are refused.
//! * What the launcher asks for never reaches a shell: it is cut into words here, and what needs a shell is refused by name.
//! * What a worker started ends when the launcher's connection does, unless it became a daemon by itself as Open MPI's does. A
//!   peer that vanished is noticed within half a minute.
//! * A pod that is to end tells all that runs in it, daemons too, and waits for them as long as it may.
//! * Nobody asks the Kubernetes API for anything.

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

/// The name that the program has as the agent of mpirun.
pub const AGENT: &str = "rsh";
/// The port of a worker, in the network of its pod alone.
pub const PORT: u16 = 2222;

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let verb = if Path::new(&name).file_name().is_some_and(|name| name == AGENT) {
        // An agent has ssh's options, which are no flags of ours.
        match rsh::Rsh::of(words) {
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
        Verb::DiscoverHosts(asked) => {
            runtime.block_on(wait::answering(&asked)).map(|hosts| print(&hosts))?
        }
        Verb::Rsh(rsh) => runtime.block_on(rsh::run(&rsh))?,
    };
    // A name that is still looked up holds nobody up.
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
