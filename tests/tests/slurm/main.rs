//! Tests of real Slurm daemons with `packaging/slurm`. Jobs with `#DW` directives run from sbatch to their end, on real
//! loop devices and XFS.
//!
//! Each test starts Slurm's daemons once.

mod daemons;
mod ends;
mod failures;
mod faults;
mod forgets;
mod kinds;
mod life;
mod places;
mod scripts;
mod states;

use tests::{gate, slurm::Slurm};

const XFS: &str = "#DW jobdw type=xfs capacity=320MiB name=scratch";

/// Starts Slurm on a cluster of two computes, if this machine can run it.
fn slurm(settings: &str) -> anyhow::Result<Option<Slurm>> {
    if !gate::loop_devices() || !gate::slurm() {
        return Ok(None);
    }
    Slurm::start(settings).map(Some)
}
