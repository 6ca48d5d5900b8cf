//! mkfs.lustre(8), for targets on ZFS.

use anyhow::{Context, ensure};

use super::{Datasets, Refusal, mounts};

/// The dataset that mkfs.lustre must create for a target.
#[derive(Debug)]
pub(super) struct Target<'a> {
    /// Full name of the dataset.
    pub(super) device: &'a str,
    /// Value of the option `--mkfsoptions`.
    pub(super) options: Option<&'a str>,
    /// True for an object target, which has large records.
    pub(super) is_ost: bool,
    /// Properties in the order in which they are written. If the last property exists, all are written.
    pub(super) properties: Vec<(&'static str, String)>,
}

/// Formats an error in the form of mkfs.lustre.
pub(super) fn fatal(text: &str) -> String {
    format!("\nmkfs.lustre FATAL: {text}")
}

pub(super) fn make(datasets: &mut impl Datasets, words: &[&str]) -> anyhow::Result<String> {
    let target = read(words)?;
    let device = target.device;
    let is_mounted = mounts::sources()?.iter().any(|source| source == device);
    if is_mounted {
        let stderr = format!("{device}: is currently mounted, exiting without any change");
        return Err(Refusal::Ends { status: 17, stdout: DISK_DATA.to_owned(), stderr }.into());
    }
    let is_formatted = datasets.property(device, SERVICE).is_some();
    ensure!(
        !is_formatted,
        fatal(&format!(
            "Device {device} was previously formatted for lustre. Use --reformat to reformat, or tunefs.lustre to modify."
        ))
    );
    datasets.create(&target)?;
    let lines = target.properties.iter().map(|(name, value)| format!("  {name}={value}\n"));
    let lines: String = lines.collect();
    Ok(format!("{DISK_DATA}Writing {device} properties\n{lines}"))
}

/// First line that mkfs.lustre prints.
const DISK_DATA: &str = "   Permanent disk data:\n";
/// The property with the name of a target's service. mkfs.lustre writes it last.
pub(super) const SERVICE: &str = "lustre:svname";
/// The property with a target's flags.
pub(super) const FLAGS: &str = "lustre:flags";
/// The property with the name of a target's file system. A target that is only a management target does not have it.
pub(super) const FS_NAME: &str = "lustre:fsname";

fn read<'a>(words: &[&'a str]) -> anyhow::Result<Target<'a>> {
    let (device, options) = words.split_last().with_context(|| fatal("no device"))?;
    let has = |option: &str| options.contains(&option);
    let value = |option: &str| {
        let start = format!("{option}=");
        options
            .iter()
            .find_map(|option| option.strip_prefix(&start))
            .filter(|value| !value.is_empty())
    };
    let (mgs, mdt, ost) = (has("--mgs"), has("--mdt"), has("--ost"));
    ensure!(mgs || mdt || ost, fatal("must set target type: MDT,OST,MGS"));
    ensure!(!(ost && (mdt || mgs)), fatal("OST type is exclusive with MDT and MGS"));
    ensure!(
        value("--backfstype") == Some("zfs"),
        fatal("this stand-in makes targets on ZFS only: --backfstype=zfs")
    );
    let name = value("--fsname");
    if mdt || ost {
        let name = name.with_context(|| fatal("must specify --fsname"))?;
        ensure!(name.len() <= 8, fatal("filesystem name must be 1-8 chars"));
        value("--index").with_context(|| fatal("must specify --index"))?;
    }
    let server = value("--mgsnode");
    ensure!(mgs || server.is_some(), fatal("Must specify --mgsnode"));
    // The default 0xffff stands for a management server, which has no index.
    let index = value("--index").map_or(Ok(u16::MAX), str::parse).context("--index")?;
    let service = match name.filter(|_| mdt || ost) {
        Some(name) => format!("{name}:{}{index:04x}", if ost { "OST" } else { "MDT" }),
        None => "MGS".to_owned(),
    };
    // Bits of the flags: MDT, OST, MGS, update, never mounted.
    let flags = u8::from(mdt) | u8::from(ost) << 1 | u8::from(mgs) << MGS | 0x20 | VIRGIN;
    let written = [
        ("lustre:mgsnode", server.map(str::to_owned)),
        ("lustre:version", Some("1".to_owned())),
        (FLAGS, Some(flags.to_string())),
        ("lustre:index", Some(index.to_string())),
        (FS_NAME, name.map(str::to_owned)),
        (SERVICE, Some(service)),
    ];
    let written = written.into_iter().filter_map(|(name, value)| Some((name, value?)));
    Ok(Target {
        device,
        options: value("--mkfsoptions"),
        is_ost: ost,
        properties: written.collect(),
    })
}

/// The bit of a target's flags that marks a management server.
const MGS: u32 = 2;
/// The flag of a target that was never mounted.
pub(super) const VIRGIN: u8 = 0x40;

/// Returns the flags of a target.
pub(super) fn flags(datasets: &impl Datasets, dataset: &str) -> Option<u8> {
    datasets.property(dataset, FLAGS)?.parse().ok()
}

/// Returns whether a dataset is that of a management server.
pub(super) fn is_mgs(datasets: &impl Datasets, dataset: &str) -> bool {
    flags(datasets, dataset).is_some_and(|flags| flags >> MGS & 1 == 1)
}
