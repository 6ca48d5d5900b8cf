//! Test with a drive that stops answering while its file system is mounted: umount(2) waits in the kernel, and signals
//! do not interrupt it.

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

use crate::{COMPUTE, end, end_job, is_mounted, mounted_in, ready_in, until_connected};

/// A file system with the files of which the drives are made. While it is frozen (fsfreeze(8)), writes to the drives
/// wait.
struct Disk {
    at: PathBuf,
    // This field is dropped last: the file system must be unmounted before its directory is removed.
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

/// A frozen file system. Dropping the value thaws the file system, also after a failed test; otherwise the waiting
/// processes would never end.
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
fn an_unmount_that_hangs_in_the_kernel_is_reported_in_time_and_ends_when_the_drive_answers()
-> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let disk = Disk::new()?;
    let (mut fixture, caller) =
        mounted_in(ready_in(Fixture::without_engine_in_pool(&disk.at, 1, "xfs")?)?)?;
    fixture.run.write()?;
    // Restarts the agent so that it counts a system call as hung after 1 s instead of 30 s.
    fixture.run.cluster.stop_one(COMPUTE)?;
    fixture.run.cluster.start_node_with(COMPUTE, &[("WARREN_MOUNT_DEADLINE", "1")])?;
    until_connected(&caller)?;
    caller.call(&["mount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    let frozen = disk.freeze()?;
    end_job(&mut fixture)?;
    for on_timeout in ["report", "signal"] {
        let words = ["unmount", "--job", "1", "--deadline", SHORT, "--on-timeout", on_timeout];
        let ended = caller.call(&words)?;
        // Two exit statuses are possible: the agent may have tried again, and then it finds no mount, but a device in
        // use.
        ensure!(matches!(ended.code, Some(3 | 4)), "not exit status 3 or 4: {ended:?}");
        // The message names the waiting system call and the process's state.
        let ended = ended.expect_output("umount(2)")?.expect_output("state D")?;
        let is_hung = ended.stdout.contains("did not return within 1 s")
            || ended.stdout.contains("which has not returned");
        ensure!(is_hung, "not reported as hung: {ended:?}");
    }
    let words = ["unmount", "--job", "1", "--deadline", SHORT, "--on-timeout", "lazy"];
    // Waits for the report: the agent may have begun to observe the mount before the detachment, may hang in that
    // observation too, and then reports the observation first.
    until("the mount to be reported as detached", PATIENCE, || {
        caller
            .call(&words)?
            .expect_exit(3)?
            .expect_output("is no longer mounted at")?
            .expect_output("still in use by")
            .map(drop)
    })?;
    let name = fixture.run.job.computes_mount();
    let object = fixture.run.prints(&["get", "clientmount", &name, "-n", COMPUTE, "--json"])?;
    let object: serde_json::Value = serde_json::from_str(&object)?;
    ensure!(object["status"]["allReady"] == false, "reported as unmounted: {}", object["status"]);
    drop(frozen);
    caller.call(&["unmount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    ensure!(!is_mounted(&fixture)?, "the storage is still mounted");
    end(fixture)
}
