//! Stand-ins for `zpool`, `zfs`, `lctl`, `lfs`, `mkfs.lustre` and `mount -t lustre`: they record in one file what the
//! real programs would write to devices.
//!
//! Options and output are those of the manual pages (zpool(8) and its parts, zfs(8), mkfs.lustre(8),
//! mount.lustre(8), lctl(8)). Refusals, exit statuses and the properties of targets are those of Lustre 2.17,
//! observed on a real system. A target's mount is a tmpfs whose source is the dataset; a client's mount is a tmpfs
//! whose source is `<mgs>:/<fsname>`. Such a mount is in the mount table and can be busy, but two mounts of one file
//! system do not share files.
//!
//! The state is in the directory `lustre.state`, which lies in the directory of `PATH` that has the stand-ins, with a
//! log of the command lines that change something. If `lustre.state` is missing, ZFS is real, and only Lustre's own
//! programs are stand-ins; they work on datasets of real pools.

mod in_earnest;
mod mkfs;
mod mounts;
mod pools;
mod refusal;

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

pub use self::refusal::Refusal;

/// Names under which the stand-in is installed on a machine that has neither ZFS nor Lustre.
pub const NAMES: [&str; 6] = ["zpool", "zfs", "lctl", "lfs", "mkfs.lustre", "mount"];

/// Names under which the stand-in is installed on a machine that has ZFS. mount(8) itself
/// finds and runs `mount.lustre`.
pub const LUSTRES_OWN: [&str; 4] = ["lctl", "lfs", "mkfs.lustre", "mount.lustre"];

/// Directory of the state, in the same directory as the names.
const STATE: &str = "lustre.state";

/// The LNet address (NID) of the only Lustre server.
pub const NID: &str = "10.0.0.1@tcp";

/// The state of the stand-ins: pools with their datasets, and registered file systems.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    pools: BTreeMap<String, Pool>,
    /// The file systems that have registered with the management service.
    #[serde(default)]
    registered: BTreeSet<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Pool {
    devices: BTreeSet<String>,
    imported: bool,
    /// Properties of each dataset, by its whole name.
    datasets: BTreeMap<String, BTreeMap<String, String>>,
}

/// Access to the datasets of targets, which are in the stand-in's state or in real ZFS.
trait Datasets {
    /// Returns a property of a dataset.
    fn property(&self, dataset: &str, name: &str) -> Option<String>;

    /// Sets a property of a dataset that exists.
    fn set_property(&mut self, dataset: &str, name: &str, value: &str) -> anyhow::Result<()>;

    /// Records that a target has registered its file system with the management service.
    fn record_registration(&mut self, dataset: &str);

    /// Makes a dataset, with the properties that identify its target.
    fn create(&mut self, target: &mkfs::Target<'_>) -> anyhow::Result<()>;
}

impl State {
    fn dataset(&self, name: &str) -> Option<&BTreeMap<String, String>> {
        let pool = self.pools.get(pool_of(name)).filter(|pool| pool.imported)?;
        pool.datasets.get(name)
    }
}

fn pool_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(pool, _)| pool)
}

/// Creates links to `program` with all [`NAMES`] in `directory`, and an empty state.
///
/// # Errors
/// When the directory cannot be written to.
pub fn install(directory: &Path, program: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory.join(STATE)).context("make the state's directory")?;
    for name in NAMES {
        std::os::unix::fs::symlink(program, directory.join(name)).context("link a name")?;
    }
    Ok(())
}

/// Returns the logged command lines, in order: those that have changed something so far.
///
/// # Errors
/// When the log cannot be read.
pub fn log(directory: &Path) -> anyhow::Result<Vec<String>> {
    let log = fs::read_to_string(directory.join(STATE).join("log")).context("read the log")?;
    Ok(log.lines().map(str::to_owned).collect())
}

/// Runs the stand-in with this name, and returns its output.
///
/// # Errors
/// When the stand-in refuses, with the message of the real program; a [`Refusal`] where the exit status matters too.
pub fn run(name: &str, words: &[&str]) -> anyhow::Result<String> {
    if name == "mount" && !mounts::is_lustre(words) {
        return mounts::plain(words);
    }
    let Some(directory) = state_directory() else { return in_earnest::act(name, words) };
    let lock = File::create(directory.join("lock")).context("open the lock")?;
    let _lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
    let path = directory.join("state.json");
    let mut state = match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).context("read the state")?,
        Err(_) => State::default(),
    };
    let before = serde_json::to_string(&state)?;
    let printed = act(&mut state, name, words)?;
    let after = serde_json::to_string(&state)?;
    let is_on_mgs =
        matches!((name, words), ("lctl", ["erase_lcfg" | "conf_param" | "set_param", ..]));
    let is_logged = is_on_mgs || matches!(name, "mount" | "lfs");
    if after != before || is_logged {
        let mut log = File::options().create(true).append(true).open(directory.join("log"))?;
        writeln!(log, "{name} {}", words.join(" "))?;
    }
    fs::write(directory.join("draft"), after)?;
    fs::rename(directory.join("draft"), path)?;
    Ok(printed)
}

fn act(state: &mut State, name: &str, words: &[&str]) -> anyhow::Result<String> {
    match (name, words) {
        ("zpool", ["create", rest @ ..]) => pools::create(state, rest),
        ("zpool", ["destroy", rest @ ..]) => pools::destroy(state, rest),
        ("zpool", ["export", name]) => pools::export(state, name),
        ("zpool", ["import", rest @ ..]) => pools::import(state, rest),
        ("zpool", ["replace", name, old, new]) => pools::replace(state, name, old, new),
        ("zpool", ["list", "-H", "-o", "name"]) => Ok(pools::list(state)),
        ("zpool", ["status", "-P", "-L", name]) => pools::status(state, name),
        ("zfs", ["get", "-H", "-r", "-t", "filesystem", "-o", "name,value", property, pool]) => {
            pools::get(state, property, pool)
        }
        ("zfs", ["destroy", dataset]) => pools::discard(state, dataset),
        ("mkfs.lustre", words) => mkfs::make(state, words),
        ("mount", words) => mounts::mount(state, words),
        ("lctl", ["erase_lcfg", name]) => mounts::erase(state, name),
        ("lctl", ["conf_param" | "set_param", ..]) => mounts::on_mgs(state),
        _ => answer(name, words),
    }
}

/// Answers commands that need no dataset.
fn answer(name: &str, words: &[&str]) -> anyhow::Result<String> {
    match (name, words) {
        ("lctl", ["list_nids"]) => Ok(format!("{NID}\n")),
        ("lfs", ["setstripe", rest @ ..]) => mounts::set_stripe(rest),
        _ => bail!("{name}: unrecognized command '{}'", words.join(" ")),
    }
}

fn state_directory() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|path| path.join(STATE)).find(|path| path.is_dir())
}
