//! mount.lustre(8), and what is asked of a client's mount.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use anyhow::{Context, bail, ensure};

use super::{Datasets, State, mkfs};
use crate::program::command;

/// Where the real one is, whatever `PATH` says.
const MOUNT: &str = "/bin/mount";

/// `-t lustre …`; everything else is for the real mount(8).
pub(super) fn is_lustre(words: &[&str]) -> bool {
    matches!(words, ["-t", "lustre", ..])
}

pub(super) fn plain(words: &[&str]) -> anyhow::Result<String> {
    let mut real = command(MOUNT);
    real.args(words);
    done(&mut real)
}

pub(super) fn done(program: &mut Command) -> anyhow::Result<String> {
    let output = program.output().with_context(|| format!("start {program:?}"))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Sources of all mounts that this process sees.
pub(super) fn sources() -> anyhow::Result<Vec<String>> {
    Ok(table()?.into_iter().map(|(source, _)| source).collect())
}

/// Sources of the mounts of all nodes, which are mount namespaces of this host: a client reaches a target over the network.
fn everywhere() -> anyhow::Result<BTreeSet<String>> {
    let (mut nodes, mut found) = (BTreeSet::new(), BTreeSet::new());
    for process in fs::read_dir("/proc").context("list the processes")? {
        let process = process.context("list the processes")?.path();
        // One that ended meanwhile has no namespace, and what is no process neither.
        let Ok(node) = fs::read_link(process.join("ns/mnt")) else { continue };
        if nodes.insert(node) {
            let Ok(table) = fs::read_to_string(process.join("mounts")) else { continue };
            found.extend(sources_and_targets(&table).into_iter().map(|(source, _)| source));
        }
    }
    Ok(found)
}

/// Source and target of each mount that this process sees.
fn table() -> anyhow::Result<Vec<(String, String)>> {
    let table = fs::read_to_string("/proc/self/mounts").context("read the mounts")?;
    Ok(sources_and_targets(&table))
}

fn sources_and_targets(table: &str) -> Vec<(String, String)> {
    let words = table.lines().map(|line| line.split(' '));
    words
        .filter_map(|mut words| Some((words.next()?.to_owned(), words.next()?.to_owned())))
        .collect()
}

pub(super) fn mount(datasets: &impl Datasets, words: &[&str]) -> anyhow::Result<String> {
    let words = match words {
        ["-t", "lustre", "-o", _, rest @ ..] | ["-t", "lustre", rest @ ..] => rest,
        // As mount(8) calls its helpers.
        [source, target, "-o", _] => &[*source, *target],
        _ => words,
    };
    let [source, target] = words else { bail!("mount.lustre: missing device or directory") };
    ensure!(Path::new(target).is_dir(), "mount.lustre: {target} is not a directory");
    let failed = |why: &str| format!("mount.lustre: mount {source} at {target} failed: {why}");
    match source.split_once(":/") {
        Some((_, name)) => {
            let mounted = everywhere()?;
            let serves =
                |kind: &str| mounted.iter().any(|source| is_of(datasets, source, name, kind));
            ensure!(
                ["MDT", "OST"].iter().all(|kind| serves(kind)),
                failed(
                    "No such file or directory\nIs the MGS specification correct?\nIs the filesystem name correct?"
                )
            );
        }
        None => {
            ensure!(
                datasets.service(source).is_some(),
                "mount.lustre: {source} has not been formatted with mkfs.lustre or the backend filesystem type is not supported by this tool"
            );
            let twice = table()?.iter().any(|(other, _)| other == source);
            ensure!(
                !twice,
                failed(
                    "Operation already in progress\nThe target service is already running. ({source})"
                )
            );
        }
    }
    let mut real = command(MOUNT);
    real.args(["-t", "tmpfs", "-o", "size=1m,mode=0755", source, target]);
    done(&mut real)
}

/// Whether a mounted dataset is a target of this kind of the file system.
fn is_of(datasets: &impl Datasets, dataset: &str, name: &str, kind: &str) -> bool {
    let service = Some(dataset)
        .filter(|dataset| dataset.contains('/'))
        .and_then(|dataset| datasets.service(dataset));
    service.is_some_and(|service| service.starts_with(&format!("{name}:{kind}")))
}

/// What lctl(8) does only where the management service runs. What the service knows is kept nowhere.
pub(super) fn on_mgs(state: &State) -> anyhow::Result<String> {
    let is_mgs = |dataset: &str| state.dataset(dataset).is_some_and(mkfs::is_mgs);
    let serves = sources()?.iter().any(|source| is_mgs(source));
    ensure!(serves, "This command must be run on the MGS.");
    Ok(String::new())
}

pub(super) fn set_stripe(words: &[&str]) -> anyhow::Result<String> {
    let target = words.last().context("lfs setstripe: missing filename|dirname")?;
    let is_client = table()?.iter().any(|(source, at)| at == target && source.contains(":/"));
    ensure!(
        is_client,
        "lfs setstripe: cannot set stripe on {target}: Inappropriate ioctl for device"
    );
    Ok(String::new())
}
