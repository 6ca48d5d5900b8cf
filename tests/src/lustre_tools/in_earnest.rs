//! Lustre's own programs where zpool(8) and zfs(8) are the real ones: their effects on pools and datasets are real,
//! their effects on Lustre in the kernel are not.

use anyhow::Context;

use super::{Datasets, answer, mkfs, mounts, pool_of};
use crate::program::command;

pub(super) fn act(name: &str, words: &[&str]) -> anyhow::Result<String> {
    match name {
        "mkfs.lustre" => mkfs::make(&mut RealZfs, words),
        "mount.lustre" => mounts::mount(&mut RealZfs, words),
        _ => answer(name, words),
    }
}

/// The real ZFS of the node, used through zpool(8) and zfs(8).
struct RealZfs;

impl RealZfs {
    fn run(program: &str, words: &[&str]) -> anyhow::Result<String> {
        // Starts the program by its full path, because mount(8) runs its helpers, of which this is one, without PATH.
        let mut argv = command(format!("/sbin/{program}"));
        argv.args(words);
        mounts::run_to_end(&mut argv)
    }
}

impl Datasets for RealZfs {
    fn property(&self, dataset: &str, name: &str) -> Option<String> {
        let value = Self::run("zfs", &["get", "-H", "-o", "value", name, dataset]);
        let value = value.ok()?.trim_end().to_owned();
        Some(value).filter(|value| value != "-")
    }

    fn set_property(&mut self, dataset: &str, name: &str, value: &str) -> anyhow::Result<()> {
        Self::run("zfs", &["set", &format!("{name}={value}"), dataset]).map(drop)
    }

    /// Records nothing: on this node, no program lists the registered file systems.
    fn record_registration(&mut self, _: &str) {}

    /// Creates a dataset as mkfs.lustre does: it ignores errors when it sets options of the pool or options for speed,
    /// but not when it creates the dataset or sets the target's properties.
    fn create(&mut self, target: &mkfs::Target<'_>) -> anyhow::Result<()> {
        let (device, pool) = (target.device, pool_of(target.device));
        for wish in ["multihost=on", "feature@userobj_accounting=enabled"] {
            let _ = Self::run("zpool", &["set", wish, pool]);
        }
        let more = target.options.map_or(Vec::new(), |options| vec!["-o", options]);
        let words = [&["create", "-o", "canmount=off"][..], &more, &[device]].concat();
        Self::run("zfs", &words)
            .with_context(|| mkfs::fatal(&format!("Unable to create filesystem {device}")))?;
        let large = target.is_ost.then_some("recordsize=1M");
        for wish in ["xattr=sa", "dnodesize=auto"].into_iter().chain(large) {
            let _ = Self::run("zfs", &["set", wish, device]);
        }
        for (name, value) in &target.properties {
            Self::run("zfs", &["set", &format!("{name}={value}"), device])?;
        }
        Ok(())
    }
}
