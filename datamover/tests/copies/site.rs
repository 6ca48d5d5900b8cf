//! A source and a destination, each on its own XFS, and runs of `datamover` from one to the other.

use std::{
    fs,
    io::{BufRead, BufReader, Lines, Write},
    os::unix::fs::chown,
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use movement::{
    order::{Order, Place, Task, User},
    report::{Ended, Progress, Report},
};
use tempfile::TempDir;

/// The job's user and group.
pub(crate) const USER: u32 = 1050;

/// The first characters of temporary names.
pub(crate) const PREFIX: &str = ".warren-1f2e3d";

pub(crate) struct Site {
    directory: TempDir,
    /// Directories of other file systems, in place of two XFS.
    others: Option<[TempDir; 2]>,
}

/// Returns new directories on the file systems that `WARREN_COPY_ROOTS=SOURCE:TARGET` names: the lab runs tests on
/// file systems that this machine lacks.
fn other_file_systems() -> Option<[TempDir; 2]> {
    let roots = std::env::var("WARREN_COPY_ROOTS").ok()?;
    let (source, target) = roots.split_once(':').unwrap();
    Some([source, target].map(|root| {
        let directory = TempDir::new_in(root).unwrap();
        chown(directory.path(), Some(USER), Some(USER)).unwrap();
        directory
    }))
}

#[expect(clippy::disallowed_methods, reason = "tests prepare the node by hand")]
fn must(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

impl Site {
    /// Creates two file systems of this size; returns `None` on a machine without loop devices.
    pub(crate) fn new(bytes: u64) -> Option<Self> {
        let others = other_file_systems();
        if others.is_none() && !gate::loop_devices() {
            return None;
        }
        let site = Self { directory: TempDir::new().unwrap(), others };
        fs::create_dir(site.at("state")).unwrap();
        if site.others.is_some() {
            return Some(site);
        }
        for mounted in [site.source(), site.target("")] {
            fs::create_dir(&mounted).unwrap();
            let image = mounted.with_extension("image");
            fs::File::create(&image).unwrap().set_len(bytes).unwrap();
            must("mkfs.xfs", &["-q", image.to_str().unwrap()]);
            must("mount", &["-o", "loop", image.to_str().unwrap(), mounted.to_str().unwrap()]);
            chown(&mounted, Some(USER), Some(USER)).unwrap();
        }
        fs::set_permissions(
            site.directory.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        Some(site)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn source(&self) -> PathBuf {
        let other = self.others.as_ref().map(|[source, _]| source.path().to_owned());
        other.unwrap_or_else(|| self.at("source"))
    }

    pub(crate) fn target(&self, path: &str) -> PathBuf {
        let other = self.others.as_ref().map(|[_, target]| target.path().to_owned());
        other.unwrap_or_else(|| self.at("target")).join(path)
    }

    /// Returns a new state directory.
    pub(crate) fn new_state(&self) -> PathBuf {
        TempDir::new_in(&self.directory).unwrap().keep()
    }

    /// The list of failures.
    pub(crate) fn failures(&self) -> String {
        fs::read_to_string(self.at("state/failures")).unwrap()
    }

    fn order(&self, source: &str, destination: &str) -> Order {
        let place = |root: PathBuf, path: &str| Place { root, path: path.to_owned() };
        Order {
            task: Task::Copy,
            user: User { uid: USER, gid: USER, groups: Vec::new() },
            source: place(self.source(), source),
            destination: place(self.target(""), destination),
            index_directory: None,
            share: None,
            creates_directories: true,
            copies_xattrs: false,
            syncs: false,
            threads: 4,
            block: 1 << 20,
            rate: None,
            interval: 100,
            prefix: PREFIX.to_owned(),
            state: self.at("state"),
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the test starts datamover in place of the agent"
    )]
    pub(crate) fn start(
        &self,
        change: impl FnOnce(&mut Order),
        source: &str,
        destination: &str,
    ) -> Run {
        let mut order = self.order(source, destination);
        change(&mut order);
        let program = std::env::var("WARREN_DATAMOVER");
        let program = program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_datamover").to_owned());
        let mut command = Command::new(program);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut run = Run { child, input, output };
        run.send(&serde_json::to_string(&order).unwrap());
        run
    }

    /// Runs `datamover` to its end.
    pub(crate) fn run(
        &self,
        change: impl FnOnce(&mut Order),
        source: &str,
        destination: &str,
    ) -> Ended {
        self.start(change, source, destination).end().unwrap()
    }

    pub(crate) fn copy(&self, source: &str, destination: &str, index: Option<&str>) -> Ended {
        self.run(|order| order.index_directory = index.map(str::to_owned), source, destination)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if self.others.is_some() {
            return;
        }
        for mounted in ["source", "target"] {
            // Unmounts lazily: another test may be starting a program, and until its exec(2) the child process keeps
            // all files open, so that a plain umount would fail.
            must("umount", &["--lazy", self.at(mounted).to_str().unwrap()]);
        }
    }
}

/// A running `datamover`.
pub(crate) struct Run {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Run {
    /// Writes a line to the standard input of `datamover`.
    pub(crate) fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Reads reports until a progress report satisfies `is_wanted`. Fails the test if the run ends before.
    pub(crate) fn until_progress(&mut self, is_wanted: impl Fn(Progress) -> bool) {
        for line in &mut self.output {
            match serde_json::from_str(&line.unwrap()).unwrap() {
                Report::Progress(progress) if is_wanted(progress) => return,
                Report::Progress(_) => {}
                Report::Ended(ended) => panic!("the run ended before the progress: {ended:?}"),
            }
        }
        panic!("the output ended before the progress");
    }

    /// Reads all reports, and returns the final one; `None` when the run ended without it.
    pub(crate) fn end(mut self) -> Option<Ended> {
        let reports = (&mut self.output).map(|line| serde_json::from_str(&line.unwrap()).unwrap());
        let ended = reports.filter_map(|report| match report {
            Report::Ended(ended) => Some(ended),
            Report::Progress(_) => None,
        });
        let ended = ended.last();
        self.child.wait().unwrap();
        ended
    }

    /// Closes the standard input, and returns the final report, if any.
    pub(crate) fn abandon(mut self) -> Option<Ended> {
        self.input = None;
        self.end()
    }

    /// Kills the run, and returns its final report if the run had ended before.
    pub(crate) fn kill(mut self) -> Option<Ended> {
        self.child.kill().unwrap();
        self.end()
    }
}
