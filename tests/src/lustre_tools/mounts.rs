//! mount.lustre(8), and the commands of lctl(8) about registered file systems.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use anyhow::{Context, bail, ensure};

use super::{Datasets, Refusal, State, mkfs};
use crate::program::command;

/// Path of the real mount(8); on `PATH`, the stand-in may come first.
const MOUNT: &str = "/bin/mount";

/// Returns whether the arguments are `-t lustre …`. All others are passed to the real mount(8).
pub(super) fn is_lustre(words: &[&str]) -> bool {
    matches!(words, ["-t", "lustre", ..])
}

pub(super) fn plain(words: &[&str]) -> anyhow::Result<String> {
    let mut real = command(MOUNT);
    real.args(words);
    run_to_end(&mut real)
}

pub(super) fn run_to_end(program: &mut Command) -> anyhow::Result<String> {
    let output = program.output().with_context(|| format!("start {program:?}"))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the sources of all mounts that this process sees.
pub(super) fn sources() -> anyhow::Result<Vec<String>> {
    Ok(table()?.into_iter().map(|(source, _)| source).collect())
}

/// Returns the sources of the mounts of all nodes, which are mount namespaces of this host. All count, since a client
/// would reach a target on another node over the network.
fn everywhere() -> anyhow::Result<BTreeSet<String>> {
    let (mut nodes, mut found) = (BTreeSet::new(), BTreeSet::new());
    for process in fs::read_dir("/proc").context("list the processes")? {
        let process = process.context("list the processes")?.path();
        // Skips entries of /proc that have no mount namespace: a process that has just ended, and entries that are no
        // process.
        let Ok(node) = fs::read_link(process.join("ns/mnt")) else { continue };
        if nodes.insert(node) {
            let Ok(table) = fs::read_to_string(process.join("mounts")) else { continue };
            found.extend(sources_and_targets(&table).into_iter().map(|(source, _)| source));
        }
    }
    Ok(found)
}

/// Returns source and target of each mount that this process sees.
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

pub(super) fn mount(datasets: &mut impl Datasets, words: &[&str]) -> anyhow::Result<String> {
    let words = match words {
        ["-t", "lustre", "-o", _, rest @ ..] | ["-t", "lustre", rest @ ..] => rest,
        // mount(8) calls its helpers with these arguments.
        [source, target, "-o", _] => &[*source, *target],
        _ => words,
    };
    let [source, target] = words else { bail!("mount.lustre: missing device or directory") };
    ensure!(Path::new(target).is_dir(), "mount.lustre: {target} is not a directory");
    let failed = |why: &str| format!("mount.lustre: mount {source} at {target} failed: {why}");
    match source.split_once(":/") {
        Some((_, name)) => check_client(datasets, name, failed)?,
        None => check_server(datasets, source, failed)?,
    }
    // A real file system keeps the owner of its root directory, which the agent sets once. A new tmpfs does not: all
    // users may write to a client's.
    let options = if source.contains(":/") { "size=1m,mode=1777" } else { "size=1m,mode=0755" };
    let mut real = command(MOUNT);
    real.args(["-t", "tmpfs", "-o", options, source, target]);
    let output = run_to_end(&mut real)?;
    if !source.contains(":/") {
        record_first_mount(datasets, source)?;
    }
    Ok(output)
}

/// Refuses a client mount if the file system does not exist, and hangs if no management server is mounted. The object
/// targets need not be mounted: a client waits for an object target only when it accesses a file on that target.
fn check_client(
    datasets: &impl Datasets,
    name: &str,
    failed: impl Fn(&str) -> String,
) -> anyhow::Result<()> {
    let mounted = everywhere()?;
    if !mounted.iter().any(|source| mkfs::is_mgs(datasets, source)) {
        return Err(Refusal::Hangs.into());
    }
    if mounted.iter().any(|source| is_metadata(datasets, source, name)) {
        return Ok(());
    }
    let why = "No such file or directory\nIs the MGS specification correct?\nIs the filesystem name correct?\nIf upgrading, is the copied client log valid? (see upgrade docs)";
    Err(Refusal::ends(2, failed(why)).into())
}

/// Refuses a target if this node already runs a service of the same name, even for another management target.
fn check_server(
    datasets: &impl Datasets,
    source: &str,
    failed: impl Fn(&str) -> String,
) -> anyhow::Result<()> {
    let wanted = services(datasets, source);
    ensure!(
        !wanted.is_empty(),
        "mount.lustre: {source} has not been formatted with mkfs.lustre or the backend filesystem type is not supported by this tool"
    );
    let running = sources()?;
    let is_taken =
        |other: &String| services(datasets, other).iter().any(|service| wanted.contains(service));
    if running.iter().any(is_taken) {
        let why = format!(
            "Operation already in progress\nThe target service is already running. ({source})"
        );
        return Err(Refusal::ends(114, failed(&why)).into());
    }
    Ok(())
}

/// Returns the names of a dataset's services, which must be unique on a node.
fn services(datasets: &impl Datasets, dataset: &str) -> BTreeSet<String> {
    if !dataset.contains('/') || dataset.starts_with('/') || dataset.contains(':') {
        return BTreeSet::new();
    }
    let own = datasets.property(dataset, mkfs::SERVICE).map(|name| name.replace(':', "-"));
    let mgs = mkfs::is_mgs(datasets, dataset).then(|| "MGS".to_owned());
    own.into_iter().chain(mgs).collect()
}

/// Makes the changes that the first mount of a target makes on its dataset.
fn record_first_mount(datasets: &mut impl Datasets, source: &str) -> anyhow::Result<()> {
    let service = datasets.property(source, mkfs::SERVICE).unwrap_or_default();
    let flags = mkfs::flags(datasets, source).unwrap_or_default() & !mkfs::VIRGIN;
    datasets.set_property(source, mkfs::FLAGS, &flags.to_string())?;
    datasets.set_property(source, mkfs::SERVICE, &service.replace(':', "-"))?;
    if service.contains("OST") {
        datasets.set_property(source, "lustre:autodegrade", "on")?;
    }
    datasets.record_registration(source);
    Ok(())
}

/// Returns whether a mounted dataset is a metadata target of the file system.
fn is_metadata(datasets: &impl Datasets, dataset: &str, name: &str) -> bool {
    let start = format!("{name}-MDT");
    services(datasets, dataset).iter().any(|service| service.starts_with(&start))
}

/// Succeeds, and does nothing, if the management service runs on this node. Otherwise refuses, as lctl(8) does.
pub(super) fn on_mgs(state: &State) -> anyhow::Result<String> {
    let serves = sources()?.iter().any(|source| mkfs::is_mgs(state, source));
    if serves {
        return Ok(String::new());
    }
    let refusal = Refusal::Ends {
        status: 19,
        stdout: "Reader error: 'Object not found' at 0\n".to_owned(),
        stderr:
            "No device found for name MGS: Invalid argument\nThis command must be run on the MGS."
                .to_owned(),
    };
    Err(refusal.into())
}

/// Erases a file system from the records of the management service.
pub(super) fn erase(state: &mut State, name: &str) -> anyhow::Result<String> {
    let output = on_mgs(state)?;
    if state.registered.remove(name) {
        return Ok(output);
    }
    let why = "error: erase_lcfg: OBD_IOC_LCFG_ERASE failed: No such file or directory";
    Err(Refusal::ends(2, why).into())
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
