//! Runs in the pods of MPI in place of sshd and ssh: a small static program that needs no file of the image.
//!
//! ```text
//! launcher: podhelper wait ─ every worker answers ─► mpirun ─► rsh HOST COMMAND… ─┐
//!                                                                                 │ TLS 1.3, keys of this attempt alone
//! worker:   podhelper worker ─ checks the keys ─► starts the command ◄────────────┘
//! ```
//! `docs/develop/words.md` explains the words that all crates use.
//!
//! # Run and attempt
//! A run is the containers of one directive of a job, on all rabbits that serve the job's computes. (A rabbit is a node
//! with drives.) An attempt is one try of the run, with keys of its own.
//!
//! # Commands, peers and signals
//! * The launcher's command may be a shell with arguments: then that shell runs on the worker. Patterns of file names
//!   are passed on unchanged.
//! * A peer that does not prove that it has the keys holds its connection for at most 5 s, and delays no other peer.
//! * Signals to a pod reach all processes beneath the first process of the worker's container. The first process reaps
//!   the processes that end.
//! * Without Kubernetes the rabbits' agents make a network for each run. The network's devices are inside the pods, and
//!   vanish with the pods.
//!
//! # Guarantees
//! * Both ends prove that they have the keys of the same attempt before they exchange messages: a peer with the keys of
//!   another attempt is rejected.
//! * No shell sees the launcher's command: podhelper splits it into words. If a part of the command needs a shell,
//!   podhelper rejects the command and names that part.
//! * A command on a worker ends when the launcher's connection ends, unless the command has become a daemon, as Open
//!   MPI's daemon does. A vanished peer is noticed within half a minute.
//! * When a pod ends, its init (podhelper as the container's first process) forwards the signal to all processes,
//!   daemons included, and waits for them until the pod's grace period ends.
//! * podhelper never calls the Kubernetes API.

mod args;
mod command;
mod directory;
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

/// Name of the program when mpirun calls it as a remote shell.
pub const AGENT: &str = "rsh";
/// Port of a worker. The port is open only in the network of the worker's pod.
pub const PORT: u16 = 2222;

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let verb = if Path::new(&name).file_name().is_some_and(|name| name == AGENT) {
        // mpirun passes options of ssh, which podhelper's own command line does not have.
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
        Verb::MakeDirectory(copy) => {
            directory::make_directory(&copy.source, &copy.destination).map(|()| 0)?
        }
        Verb::Rsh(rsh) => runtime.block_on(rsh::run(&rsh))?,
    };
    // Does not wait for a name lookup that still runs.
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
