//! Programs that run beside a measurement, and those that are stopped for it.

use std::process::Child;

use nix::sys::signal::Signal;

use crate::{cluster::Cluster, program::signal};

/// The program that runs beside the job, killed when this is dropped if it is the stand-in.
#[derive(Debug)]
pub(super) enum Beside {
    Nobody,
    Agent(u32),
    Poller(Child),
}

impl Beside {
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::Nobody => None,
            Self::Agent(pid) => Some(*pid),
            Self::Poller(child) => Some(child.id()),
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Self::Poller(child) = self {
            // An error means that it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The programs of other hosts, stopped until this is dropped.
#[derive(Debug)]
pub(super) struct Frozen(Vec<u32>);

impl Frozen {
    pub(super) fn stop(cluster: &Cluster) -> anyhow::Result<Self> {
        let rabbit = cluster.chassis().rabbit.clone();
        let pids = vec![cluster.coordinator()?.pid()?, cluster.node(&rabbit)?.pid()?];
        let frozen = Self(pids);
        for pid in &frozen.0 {
            signal(*pid, Signal::SIGSTOP)?;
        }
        Ok(frozen)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for pid in &self.0 {
            // An error means that the program has ended.
            let _ = signal(*pid, Signal::SIGCONT);
        }
    }
}
