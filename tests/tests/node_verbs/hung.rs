//! A drive that stops to answer under a mounted file system: umount(2) waits in the kernel, where no signal reaches it.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use tempfile::TempDir;
use tests::{
    cluster::{PATIENCE, output},
    fixture::Fixture,
    gate,
    program::{command, until},
    verbs::SHORT,
};

use crate::{COMPUTE, end, end_job, is_mounted, mounted_in, ready_in, until_known};

/// A file system for the drives' files, which can be frozen: what is written to the drives waits until it is thawed.
struct Disk {
    at: PathBuf,
    // Dropped after the file system is unmounted.
    _directory: TempDir,
}

impl Disk {
    fn new() -> anyhow::Result<Self> {
        let directory =
            TempDir::with_prefix_in("warren-disk-", "/var/tmp").context("a directory")?;
        let (image, at) = (directory.path().join("image"), directory.path().join("at"));
        std::fs::File::create(&image)?.set_len(16 << 30)?;
        std::fs::create_dir(&at)?;
        let path = |path: &Path| path.to_str().context("a path in UTF-8").map(str::to_owned);
        run("mkfs.xfs", &["-q", &path(&image)?])?;
        run("mount", &["-o", "loop", &path(&image)?, &path(&at)?])?;
        Ok(Self { at, _directory: directory })
    }

    fn freeze(&self) -> anyhow::Result<Frozen<'_>> {
        output_of("fsfreeze", "-f", &self.at).map(|()| Frozen(self))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(output_of("umount", "-l", &self.at));
    }
}

/// Thawed when dropped, also after a failure: nothing else ends what waits.
struct Frozen<'a>(&'a Disk);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        drop(output_of("fsfreeze", "-u", &self.0.at));
    }
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let mut argv = command(program);
    argv.args(arguments);
    output(argv).map(drop)
}

fn output_of(program: &str, flag: &str, path: &Path) -> anyhow::Result<()> {
    let mut argv = command(program);
    argv.arg(flag).arg(path);
    output(argv).map(drop)
}

#[test]
fn an_unmount_that_the_kernel_does_not_end_is_told_in_time_and_goes_on_when_the_drive_answers()
-> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let disk = Disk::new()?;
    let (mut fixture, caller) =
        mounted_in(ready_in(Fixture::without_engine_in_pool(&disk.at, 1, "xfs")?)?)?;
    fixture.run.write()?;
    // A call of the kernel counts as hung after a second, in the place of thirty.
    fixture.run.cluster.stop_one(COMPUTE)?;
    fixture.run.cluster.start_node_with(COMPUTE, &[("WARREN_MOUNT_DEADLINE", "1")])?;
    until_known(&caller)?;
    caller.call(&["mount", "--job", "1", "--deadline", "60s"])?.with(0)?;
    let frozen = disk.freeze()?;
    end_job(&mut fixture)?;
    for on_timeout in ["report", "signal"] {
        let words = ["unmount", "--job", "1", "--deadline", SHORT, "--on-timeout", on_timeout];
        let told = caller.call(&words)?;
        // A retry of the agent's finds no mount, and somebody who uses the device.
        ensure!(matches!(told.code, Some(3 | 4)), "not exit status 3 or 4: {told:?}");
        // The process that waits, and where in the kernel it does.
        let told = told.saying("umount(2)")?.saying("state D")?;
        let is_hung = told.stdout.contains("did not return within 1 s")
            || told.stdout.contains("which has not returned");
        ensure!(is_hung, "not said to hang: {told:?}");
    }
    let words = ["unmount", "--job", "1", "--deadline", SHORT, "--on-timeout", "lazy"];
    // A look that began before the mount was detached may hang as well, and is told first.
    until("the mount to be told as detached", PATIENCE, || {
        caller
            .call(&words)?
            .with(3)?
            .saying("is no longer mounted at")?
            .saying("still in use by")
            .map(drop)
    })?;
    let name = fixture.run.job.computes_mount();
    let object = fixture.run.prints(&["get", "clientmount", &name, "-n", COMPUTE, "--json"])?;
    let object: serde_json::Value = serde_json::from_str(&object)?;
    ensure!(object["status"]["allReady"] == false, "told as unmounted: {}", object["status"]);
    drop(frozen);
    caller.call(&["unmount", "--job", "1", "--deadline", "60s"])?.with(0)?;
    ensure!(!is_mounted(&fixture)?, "it is mounted still");
    end(fixture)
}
