//! mkfs.lustre(8), for targets on ZFS.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};

use super::Datasets;

/// What a target's dataset is made with.
#[derive(Debug)]
pub(super) struct Target<'a> {
    /// Its whole name.
    pub(super) device: &'a str,
    /// What `--mkfsoptions` says.
    pub(super) options: Option<&'a str>,
    /// Whether it is for objects: those have large records.
    pub(super) is_ost: bool,
    /// Properties in the order in which they are written: the last one tells that all are.
    pub(super) properties: Vec<(&'static str, String)>,
}

/// A complaint as mkfs.lustre words it.
pub(super) fn fatal(text: &str) -> String {
    format!("\nmkfs.lustre FATAL: {text}")
}

pub(super) fn make(datasets: &mut impl Datasets, words: &[&str]) -> anyhow::Result<String> {
    let target = read(words)?;
    let device = target.device;
    let is_formatted = datasets.service(device).is_some();
    ensure!(
        !is_formatted,
        fatal(&format!(
            "Device {device} was previously formatted for lustre. Use --reformat to reformat, or tunefs.lustre to modify."
        ))
    );
    datasets.create(&target)?;
    let lines = target.properties.iter().map(|(name, value)| format!("  {name}={value}\n"));
    let lines: String = lines.collect();
    Ok(format!("   Permanent disk data:\nWriting {device} properties\n{lines}"))
}

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
    let index: u16 = value("--index").unwrap_or("0").parse().context("--index")?;
    let service = match name.filter(|_| mdt || ost) {
        Some(name) => format!("{name}:{}{index:04x}", if ost { "OST" } else { "MDT" }),
        None => "MGS".to_owned(),
    };
    // Bits of the flags: MDT, OST, MGS, update, never mounted.
    let flags = u8::from(mdt) | u8::from(ost) << 1 | u8::from(mgs) << MGS | 0x60;
    let written = [
        ("lustre:mgsnode", server.map(str::to_owned)),
        ("lustre:version", Some("1".to_owned())),
        ("lustre:flags", Some(flags.to_string())),
        ("lustre:index", Some(index.to_string())),
        ("lustre:fsname", name.map(str::to_owned)),
        ("lustre:svname", Some(service)),
    ];
    let written = written.into_iter().filter_map(|(name, value)| Some((name, value?)));
    Ok(Target {
        device,
        options: value("--mkfsoptions"),
        is_ost: ost,
        properties: written.collect(),
    })
}

/// Which bit of a target's flags says that it is a management server.
const MGS: u32 = 2;

/// Whether a dataset with these properties is a management server.
pub(super) fn is_mgs(properties: &BTreeMap<String, String>) -> bool {
    let flags = properties.get("lustre:flags").and_then(|flags| flags.parse::<u8>().ok());
    flags.is_some_and(|flags| flags >> MGS & 1 == 1)
}
