//! Runs jobs from their first to their last state: storage is made, mounted, written, read on the rabbit and removed,
//! and nothing may be left.

use std::path::Path;

use anyhow::ensure;

use crate::{
    centre::{Chassis, Job},
    cluster::{Cluster, patience},
    fixture::Fixture,
    program::until,
    run::{Machines, Run, Silent},
};

/// Runs a whole job with an XFS for each of `computes` computes.
///
/// # Errors
/// When any step fails.
pub fn xfs(computes: u8) -> anyhow::Result<()> {
    let mut fixture = Fixture::new(computes, "xfs")?;
    if let Err(error) = fixture.run.whole_life() {
        return Err(error.context(format!("everything is kept in {}", fixture.keep().display())));
    }
    let left = fixture.namespaces()?;
    ensure!(left.is_empty(), "namespaces are left: {left:?}");
    fixture.end()
}

/// Runs a whole job with a raw volume for each of two computes.
///
/// # Errors
/// When any step fails.
pub fn raw() -> anyhow::Result<()> {
    let mut fixture = Fixture::new(2, "raw")?;
    raw_life(&mut fixture.run)?;
    fixture.end()
}

/// Checks that a raw volume is a block device that the user owns, and that the rabbit reads the data that a
/// compute wrote to it.
///
/// # Errors
/// When any step fails.
pub fn raw_life<M: Machines>(run: &mut Run<Silent, M>) -> anyhow::Result<()> {
    run.carve_and_mount()?;
    let (path, user, chassis) = (run.job.mount_path(), run.job.user, run.cluster.chassis().clone());
    for (compute, _) in &chassis.computes {
        let write = format!(
            "printf %-4096s {compute} | dd of={path} bs=4096 iflag=fullblock oflag=direct status=none"
        );
        run.cluster.run_on(compute, user, &write)?;
    }
    run.unmount_from_computes()?;
    run.wait_for_computes("unmounted")?;
    run.withdraw_from_computes()?;
    run.mount_on_rabbit()?;
    for (place, (compute, _)) in chassis.computes.iter().enumerate() {
        let read = format!("head -c 4096 {path}/node-{place}");
        let read = run.cluster.run_on(&chassis.rabbit, user, &read)?;
        ensure!(read.trim() == *compute, "allocation {place} holds {read:?}");
    }
    run.tear_down()
}

/// Runs the first half of a job, beneath a directory that survives a loss of this computer's power. Returns when every
/// compute has written, while all programs still run.
///
/// # Errors
/// When any step fails.
pub fn until_written(directory: &Path) -> anyhow::Result<Run<Silent>> {
    let mut run = start_in(directory)?;
    run.describe_system()?;
    run.carve_and_mount()?;
    run.write()?;
    Ok(run)
}

/// Runs the second half of the job of [`until_written`], after a loss of power: the computes must get their mounts
/// again, and the rabbit must read the data that they wrote.
///
/// # Errors
/// When any step fails.
pub fn from_written(directory: &Path) -> anyhow::Result<()> {
    let mut run = start_in(directory)?;
    let (path, user) = (run.job.mount_path(), run.job.user);
    for (compute, _) in run.cluster.chassis().computes.clone() {
        // Looks for the file on the compute itself: the status in the API is older than the loss of power.
        let there = format!("grep -q {compute} {path}/hello");
        until("the file on its compute", patience(), || {
            run.cluster.run_on(&compute, user, &there)
        })?;
    }
    run.unmount_from_computes()?;
    run.wait_for_computes("unmounted")?;
    run.withdraw_from_computes()?;
    run.mount_on_rabbit()?;
    for place in 0..run.cluster.chassis().computes.len() {
        run.read_on_rabbit(place)?;
    }
    run.tear_down()?;
    run.cluster.stop()
}

fn start_in(directory: &Path) -> anyhow::Result<Run<Silent>> {
    let cluster = Cluster::start(directory, Chassis::new(2))?;
    // Fixed uids let both halves of the job use the same objects.
    let job = Job {
        workflow_uid: "0c1f7d5e-6a0b-4f1c-9d53-5f0e6f0b7a11".to_owned(),
        storage_uid: "7be2a8c4-93d1-4c0e-8a77-2d9f41c3e622".to_owned(),
        ..Job::new(1, "xfs", &cluster.mount_root())
    };
    Ok(Run { cluster, job, narrator: Silent, patient: false })
}
