//! The programs that copy.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, bail};
use movement::{
    order::{Order, Place, Task, User},
    report::{Outcome, Report},
};
use procfs::process::Process;

use super::{must, text};
use crate::{bench::row::say, program};

/// The user as whom `datamover` copies.
pub(super) const USER: u32 = 1050;

/// A copying program.
#[derive(Debug)]
pub(super) enum Contender {
    /// Ours, with the directory of its journal.
    Datamover(PathBuf),
    /// Another program, with the arguments before source and target.
    Other(&'static str, &'static [&'static str]),
}

/// What is known of a copy.
#[derive(Debug, Default)]
pub(super) struct Copied {
    /// Peak of the process's resident memory in KiB.
    pub(super) resident: Option<u64>,
}

const OTHERS: [(&str, &[&str]); 4] = [
    ("cp", &["-a"]),
    ("rsync", &["-a", "--sparse", "--inplace"]),
    ("fpsync", &["-n", "2", "-o", "-lptgoD --sparse"]),
    ("rcp", &["--preserve-settings=all"]),
];

impl Contender {
    /// Returns ours and the other programs that are installed.
    pub(super) fn installed(state: &Path) -> anyhow::Result<Vec<Self>> {
        std::fs::create_dir_all(state).context("make the state directory")?;
        let mut contenders = vec![Self::Datamover(state.to_owned())];
        for (name, arguments) in OTHERS {
            match program::command(name).arg("--help").output() {
                Ok(_) => contenders.push(Self::Other(name, arguments)),
                Err(error) => say(&format!("bench: SKIPPED {name}: {error}")),
            }
        }
        Ok(contenders)
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Datamover(_) => "datamover",
            Self::Other(name, _) => name,
        }
    }

    /// Copies a source into a directory, under its own name.
    pub(super) fn copy(&self, source: &Path, target: &Path) -> anyhow::Result<Copied> {
        match self {
            Self::Datamover(state) => move_data(state, source, target),
            // fpsync copies the contents of a directory only.
            Self::Other("fpsync", _) if !source.is_dir() => {
                must("rsync", &["-a", "--sparse", text(source)?, text(target)?])?;
                Ok(Copied::default())
            }
            Self::Other("fpsync", arguments) => {
                let target = target.join(source.file_name().context("a name")?);
                run_other("fpsync", arguments, &source.join(""), &target.join(""))
            }
            Self::Other("rcp", arguments) => {
                let target = target.join(source.file_name().context("a name")?);
                run_other("rcp", arguments, source, &target)
            }
            Self::Other(name, arguments) => run_other(name, arguments, source, &target.join("")),
        }
    }
}

fn run_other(
    name: &str,
    arguments: &[&str],
    source: &Path,
    target: &Path,
) -> anyhow::Result<Copied> {
    must(name, &[arguments, &[text(source)?, text(target)?]].concat())?;
    Ok(Copied::default())
}

/// Copies as the rabbit's agent has it copied.
fn move_data(state: &Path, source: &Path, target: &Path) -> anyhow::Result<Copied> {
    let place = |path: &Path| -> anyhow::Result<Place> {
        let root = path.parent().context("a parent")?.to_owned();
        let name = path.file_name().and_then(|name| name.to_str()).context("a name")?;
        Ok(Place { root, path: name.to_owned() })
    };
    let destination = place(target)?;
    let order = Order {
        task: Task::Copy,
        user: User { uid: USER, gid: USER, groups: Vec::new() },
        source: place(source)?,
        destination: Place { path: format!("{}/", destination.path), ..destination },
        index_directory: None,
        share: None,
        creates_directories: true,
        copies_xattrs: false,
        syncs: false,
        threads: 8,
        block: 64 << 20,
        rate: None,
        interval: 100,
        prefix: ".warren-bench".to_owned(),
        state: state.to_owned(),
    };
    let mut command = program::command(program::binary("datamover")?);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("its standard input")?;
    writeln!(input, "{}", serde_json::to_string(&order)?)?;
    let reports = BufReader::new(child.stdout.take().context("its standard output")?).lines();
    let process = Process::new(i32::try_from(child.id())?)?;
    let mut copied = Copied::default();
    for report in reports {
        let peak = process.status().ok().and_then(|status| status.vmhwm);
        copied.resident = copied.resident.max(peak);
        if let Report::Ended(ended) = serde_json::from_str(&report?)? {
            child.wait()?;
            if ended.outcome != Outcome::Done || ended.progress.failed > 0 {
                bail!("datamover: {ended:?}");
            }
            // The next copy is another movement.
            files::remove_tree(state).context("remove the journal")?;
            std::fs::create_dir(state).context("make the state directory")?;
            return Ok(copied);
        }
    }
    bail!("datamover ended without a report")
}
