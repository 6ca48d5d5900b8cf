//! Measures `datamover` beside the copying programs that a person would use instead, within one XFS and from one XFS to
//! another. The page cache is empty before each copy, and a copy counts as done when it is on stable storage.

mod contender;
mod source;

use std::{
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, ensure};
use nix::unistd::sync;

use self::{
    contender::{Contender, Copied},
    source::Source,
};
use super::{
    Row,
    life::median,
    row::{print, say},
};
use crate::program::command;

/// Number of copies of each source by each program.
const ROUNDS: usize = 3;

/// An XFS on a loop device.
#[derive(Debug)]
struct Disk {
    root: PathBuf,
}

impl Disk {
    /// Makes the XFS beneath a directory.
    fn new(directory: &Path, name: &str) -> anyhow::Result<Self> {
        let (image, root) = (directory.join(format!("{name}.image")), directory.join(name));
        fs::create_dir_all(&root).context("make a mount point")?;
        fs::File::create(&image)?.set_len(source::NEEDED)?;
        must("mkfs.xfs", &["-q", text(&image)?])?;
        must("mount", &["-o", "loop", text(&image)?, text(&root)?])?;
        Ok(Self { root })
    }

    /// Returns the seconds of one copy to this file system, and the peak of the copying process's memory. Removes the
    /// copy.
    fn time(&self, contender: &Contender, source: &Path) -> anyhow::Result<(f64, Option<u64>)> {
        let target = self.root.join("target");
        fs::create_dir(&target).context("make the target")?;
        // datamover copies as a user.
        chown(&target, Some(contender::USER), Some(contender::USER)).context("give it away")?;
        sync();
        fs::write("/proc/sys/vm/drop_caches", "3").context("empty the page cache")?;
        let begun = Instant::now();
        let Copied { resident } = contender.copy(source, &target)?;
        must("sync", &["-f", text(&target)?])?;
        let seconds = begun.elapsed().as_secs_f64();
        let name = source.file_name().context("a source has a name")?;
        ensure!(target.join(name).exists(), "{} copied nothing", contender.name());
        files::remove_tree(&target).context("remove the copy")?;
        Ok((seconds, resident))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = must("umount", &[&self.root.to_string_lossy()]);
    }
}

/// Copies each source with each program that is installed.
///
/// # Errors
/// When a program is missing or a copy fails.
pub fn measure(directory: &Path) -> anyhow::Result<Vec<Row>> {
    fs::create_dir_all(directory).context("make the directory")?;
    let (disk, other) = (Disk::new(directory, "copies")?, Disk::new(directory, "other")?);
    let contenders = Contender::installed(&directory.join("state"))?;
    let mut rows = Vec::new();
    for source in Source::ALL {
        say(&format!("{}, {ROUNDS} times by each of {} programs", source.name(), contenders.len()));
        let path = source.plant(&disk.root)?;
        for (target, place) in [(&disk, "within one XFS"), (&other, "to another XFS")] {
            let what = format!("{} {place}", source.name());
            let of_source = compare(target, &contenders, &what, &path)?;
            // Printed at once as well, because the whole comparison takes half an hour.
            print(&of_source);
            rows.extend(of_source);
        }
        files::remove_tree(&path)
            .or_else(|_| fs::remove_file(&path))
            .context("remove the source")?;
    }
    Ok(rows)
}

/// Returns a row for each other program, and the memory of `datamover`.
fn compare(
    disk: &Disk,
    contenders: &[Contender],
    what: &str,
    path: &Path,
) -> anyhow::Result<Vec<Row>> {
    let mut seconds = vec![Vec::new(); contenders.len()];
    let mut resident = 0;
    // The programs take turns, so that a busy moment of the machine does not hit one of them only.
    for _ in 0..ROUNDS {
        for (contender, seconds) in contenders.iter().zip(&mut seconds) {
            let (took, peak) = disk.time(contender, path)?;
            seconds.push(took);
            resident = resident.max(peak.unwrap_or(0));
        }
    }
    let medians: Vec<f64> = seconds.iter_mut().map(|seconds| median(seconds)).collect();
    let ours = medians.first().copied().context("datamover was measured")?;
    let others = contenders.iter().zip(&medians).skip(1);
    let mut rows: Vec<_> =
        others.map(|(other, median)| Row::ratio(what, ours, other.name(), *median, "s")).collect();
    #[expect(clippy::cast_precision_loss, reason = "people read three digits")]
    let resident = resident as f64 / 1024.0;
    // A copy that ends before its first report leaves no figure.
    if resident > 0.0 {
        rows.push(Row::ratio("peak memory of datamover meanwhile", resident, "aim", 64.0, "MiB"));
    }
    Ok(rows)
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("a path that is UTF-8")
}

/// Runs a program to its end.
fn must(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let output = command(program).args(arguments).output().with_context(|| program.to_owned())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {arguments:?}: {errors}");
    Ok(())
}
