//! The main job through all four programs, on real loop devices and real file systems.

use anyhow::ensure;
use tests::{fixture::Fixture, gate};

#[test]
fn xfs_is_carved_mounted_written_and_read_on_the_rabbit() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Fixture::new(3, "xfs")?;
    fixture.run.whole_life()?;
    let left = fixture.namespaces()?;
    ensure!(left.is_empty(), "namespaces are left: {left:?}");
    fixture.end()
}

/// A raw volume is a block device on a file, the user's own; what a compute wrote to it the rabbit reads from it.
#[test]
fn raw_is_carved_mounted_written_and_read_on_the_rabbit() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Fixture::new(2, "raw")?;
    let run = &mut fixture.run;
    run.carve_and_mount()?;
    let (path, user) = (run.job.mount_path(), run.job.user);
    for compute in ["compute-1", "compute-2"] {
        run.cluster.run_on(
            compute,
            user,
            &format!("printf %-512s {compute} | dd of={path} oflag=direct status=none"),
        )?;
    }
    run.unmount_from_computes()?;
    run.wait_for_computes("unmounted")?;
    run.withdraw_from_computes()?;
    run.mount_on_rabbit()?;
    for (place, compute) in ["compute-1", "compute-2"].iter().enumerate() {
        let read =
            run.cluster.run_on("rabbit-1", user, &format!("head -c 512 {path}/node-{place}"))?;
        ensure!(read.trim() == *compute, "allocation {place} holds {read:?}");
    }
    run.tear_down()?;
    fixture.end()
}
