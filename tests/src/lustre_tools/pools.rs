//! The stand-ins for zpool(8) and zfs(8).

use std::{collections::BTreeSet, fs, os::unix::fs::FileTypeExt, path::Path};

use anyhow::{Context, bail, ensure};

use super::{
    Datasets, Pool, State,
    mkfs::{self, fatal},
    mounts, pool_of,
};

impl Datasets for State {
    fn property(&self, dataset: &str, name: &str) -> Option<String> {
        self.dataset(dataset)?.get(name).cloned()
    }

    fn set_property(&mut self, dataset: &str, name: &str, value: &str) -> anyhow::Result<()> {
        let pool = self.pools.get_mut(pool_of(dataset)).filter(|pool| pool.imported);
        let properties = pool.and_then(|pool| pool.datasets.get_mut(dataset));
        let properties = properties.with_context(|| format!("cannot open '{dataset}'"))?;
        properties.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    fn record_registration(&mut self, dataset: &str) {
        self.registered.extend(self.property(dataset, mkfs::FS_NAME));
    }

    fn create(&mut self, target: &mkfs::Target<'_>) -> anyhow::Result<()> {
        let (device, name) = (target.device, pool_of(target.device));
        let pool = self.pools.get_mut(name).filter(|pool| pool.imported);
        let pool = pool.with_context(|| fatal(&format!("cannot open '{name}': no such pool")))?;
        let is_new = device.contains('/') && !pool.datasets.contains_key(device);
        ensure!(is_new, fatal(&format!("Unable to create filesystem {device} (17): File exists")));
        let properties = target.properties.iter();
        let properties = properties.map(|(name, value)| ((*name).to_owned(), value.clone()));
        pool.datasets.insert(device.to_owned(), properties.collect());
        Ok(())
    }
}

/// Returns whether a word of a pool's configuration is a keyword such as `mirror`, not a device (zpoolconcepts(7)).
fn is_layout(word: &str) -> bool {
    ["mirror", "raidz", "draid", "spare", "log", "cache"]
        .iter()
        .any(|layout| word.starts_with(layout))
}

/// Splits arguments into options and other words. The options in `valued` take a value.
fn split<'a>(words: &[&'a str], valued: &[&str]) -> (Vec<(&'a str, &'a str)>, Vec<&'a str>) {
    let (mut options, mut rest) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if valued.contains(word) {
            options.push((*word, words.next().copied().unwrap_or_default()));
        } else if word.starts_with('-') {
            options.push((word, ""));
        } else {
            rest.push(*word);
        }
    }
    (options, rest)
}

pub(super) fn create(state: &mut State, words: &[&str]) -> anyhow::Result<String> {
    let (_, rest) = split(words, &["-o", "-O", "-m", "-R"]);
    let (name, devices) = rest.split_first().context("missing pool name argument")?;
    let devices: BTreeSet<_> = devices.iter().filter(|device| !is_layout(device)).collect();
    ensure!(!devices.is_empty(), "missing vdev specification");
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic());
    ensure!(begins && !is_layout(name), "cannot create '{name}': invalid pool name");
    ensure!(
        !state.pools.get(*name).is_some_and(|pool| pool.imported),
        "cannot create '{name}': pool already exists"
    );
    for device in &devices {
        ensure_free(state, device)?;
    }
    let devices = devices.into_iter().map(|device| (*device).to_owned()).collect();
    let pool = Pool { devices, imported: true, ..Pool::default() };
    state.pools.insert((*name).to_owned(), pool);
    Ok(String::new())
}

fn ensure_free(state: &State, device: &str) -> anyhow::Result<()> {
    let kind = fs::metadata(device).with_context(|| format!("cannot open '{device}'"))?;
    ensure!(kind.file_type().is_block_device(), "cannot use '{device}': must be a block device");
    // This is the message of ZFS 2.1 for a whole disk that it has partitioned. ZFS names the pool only if the argument
    // is a partition.
    let is_used = state.pools.values().any(|pool| pool.devices.contains(device));
    ensure!(!is_used, "{device} is in use and contains a unknown filesystem.");
    Ok(())
}

fn find_imported<'a>(state: &'a mut State, name: &str) -> anyhow::Result<&'a mut Pool> {
    let pool = state.pools.get_mut(name).filter(|pool| pool.imported);
    pool.with_context(|| format!("cannot open '{name}': no such pool"))
}

fn ensure_idle(name: &str, what: &str) -> anyhow::Result<()> {
    let sources = mounts::sources()?;
    let busy = sources.iter().any(|source| source.contains('/') && pool_of(source) == name);
    ensure!(!busy, "cannot {what} '{name}': pool is busy");
    Ok(())
}

pub(super) fn destroy(state: &mut State, words: &[&str]) -> anyhow::Result<String> {
    let (_, rest) = split(words, &[]);
    let [name] = rest[..] else { bail!("missing pool argument") };
    find_imported(state, name)?;
    ensure_idle(name, "destroy")?;
    state.pools.remove(name);
    Ok(String::new())
}

pub(super) fn export(state: &mut State, name: &str) -> anyhow::Result<String> {
    ensure_idle(name, "export")?;
    find_imported(state, name)?.imported = false;
    Ok(String::new())
}

/// Imports or lists the pools that have one of the devices given with `-d`. One device is enough: ZFS finds the pool's
/// other devices at their last paths.
pub(super) fn import(state: &mut State, words: &[&str]) -> anyhow::Result<String> {
    let (options, rest) = split(words, &["-o", "-d"]);
    let searched: BTreeSet<_> =
        options.iter().filter(|(name, _)| *name == "-d").map(|(_, value)| *value).collect();
    ensure!(!searched.is_empty(), "this stand-in searches no directories: name devices with -d");
    let is_importable = |pool: &&mut Pool| {
        !pool.imported && pool.devices.iter().any(|device| searched.contains(device.as_str()))
    };
    if let [name] = rest[..] {
        let is_there = state.pools.get(name).is_some_and(|pool| pool.imported);
        ensure!(
            !is_there,
            "cannot import '{name}': a pool with that name already exists\nuse the form 'zpool import <pool | id> <newpool>' to give it a new name"
        );
        let pool = state.pools.get_mut(name).filter(is_importable);
        pool.with_context(|| format!("cannot import '{name}': no such pool available"))?.imported =
            true;
        return Ok(String::new());
    }
    let mut text = String::new();
    for (name, pool) in &mut state.pools {
        if !is_importable(&pool) {
            continue;
        }
        text.push_str(&format!(
            "   pool: {name}\n     id: 3589532515861118860\n  state: ONLINE\n action: The pool can be imported using its name or numeric identifier.\n config:\n\n\t{name}  ONLINE\n"
        ));
        pool.devices
            .iter()
            .for_each(|device| text.push_str(&format!("\t  {}  ONLINE\n", base(device))));
        text.push('\n');
    }
    Ok(text)
}

fn base(device: &str) -> &str {
    Path::new(device).file_name().and_then(|name| name.to_str()).unwrap_or(device)
}

pub(super) fn replace(
    state: &mut State,
    name: &str,
    old: &str,
    new: &str,
) -> anyhow::Result<String> {
    ensure_free(state, new)?;
    let pool = find_imported(state, name)?;
    ensure!(pool.devices.remove(old), "cannot replace {old} with {new}: no such device in pool");
    pool.devices.insert(new.to_owned());
    Ok(String::new())
}

pub(super) fn list(state: &State) -> String {
    let names = state.pools.iter().filter(|(_, pool)| pool.imported);
    names.flat_map(|(name, _)| [name, "\n"]).collect()
}

pub(super) fn status(state: &mut State, name: &str) -> anyhow::Result<String> {
    let pool = find_imported(state, name)?;
    let is_there = |device: &str| Path::new(device).exists();
    let state = |device: &str| if is_there(device) { "ONLINE" } else { "UNAVAIL" };
    let whole = pool.devices.iter().all(|device| is_there(device));
    let all = if whole { "ONLINE" } else { "DEGRADED" };
    let row = |depth: &str, name: &str, state: &str| {
        format!("\t{depth}{name}  {state}       0     0     0\n")
    };
    let rows: String = pool.devices.iter().map(|device| row("  ", device, state(device))).collect();
    Ok(format!(
        "  pool: {name}\n state: {all}\nconfig:\n\n\tNAME  STATE     READ WRITE CKSUM\n{}{rows}\nerrors: No known data errors\n",
        row("", name, all)
    ))
}

pub(super) fn get(state: &mut State, property: &str, name: &str) -> anyhow::Result<String> {
    let pool = state.pools.get(name).filter(|pool| pool.imported);
    let pool = pool.with_context(|| format!("cannot open '{name}': dataset does not exist"))?;
    let mut text = format!("{name}\t-\n");
    for (dataset, properties) in &pool.datasets {
        let value = properties.get(property).map_or("-", String::as_str);
        text.push_str(&format!("{dataset}\t{value}\n"));
    }
    Ok(text)
}

pub(super) fn discard(state: &mut State, dataset: &str) -> anyhow::Result<String> {
    let is_mounted = mounts::sources()?.iter().any(|source| source == dataset);
    ensure!(!is_mounted, "cannot destroy '{dataset}': dataset is busy");
    let pool = state.pools.get_mut(pool_of(dataset)).filter(|pool| pool.imported);
    let found = pool.and_then(|pool| pool.datasets.remove(dataset));
    found.with_context(|| format!("cannot open '{dataset}': dataset does not exist"))?;
    Ok(String::new())
}
