//! Programs that run beside a measurement, and programs that are stopped during it.

use std::process::Child;

use nix::sys::signal::Signal;

use crate::{cluster::Cluster, program::signal};

/// The program that runs beside the job. Dropping this value kills the stand-in, and leaves an agent running.
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
            // An error means that the stand-in has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The programs that would run on other hosts. They are stopped until this value is dropped.
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
