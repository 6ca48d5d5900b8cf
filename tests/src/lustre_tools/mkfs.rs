//! mkfs.lustre(8), for targets on ZFS.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};

use super::{State, pool_of};

pub(super) fn make(state: &mut State, words: &[&str]) -> anyhow::Result<String> {
    let fatal = |text: &str| format!("\nmkfs.lustre FATAL: {text}");
    let (device, options) = words.split_last().with_context(|| fatal("no device"))?;
    let has = |option: &str| options.contains(&option);
    let value = |option: &str| {
        let start = format!("{option}=");
        options.iter().find_map(|it| it.strip_prefix(&start)).filter(|it| !it.is_empty())
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
    if state.dataset(device).is_some_and(|it| it.contains_key("lustre:svname")) {
        bail!(fatal(&format!(
            "Device {device} was previously formatted for lustre. Use --reformat to reformat, or tunefs.lustre to modify."
        )));
    }
    let pool = state.pools.get_mut(pool_of(device)).filter(|pool| pool.imported);
    let pool =
        pool.with_context(|| fatal(&format!("cannot open '{}': no such pool", pool_of(device))))?;
    let is_new = device.contains('/') && !pool.datasets.contains_key(*device);
    ensure!(is_new, fatal(&format!("Unable to create filesystem {device} (17): File exists")));
    let kind = if ost { "OST" } else { "MDT" };
    let index: u16 = value("--index").unwrap_or("0").parse().context("--index")?;
    let service = match name.filter(|_| mdt || ost) {
        Some(name) => format!("{name}:{kind}{index:04x}"),
        None => "MGS".to_owned(),
    };
    let mut properties = BTreeMap::from([("lustre:svname".to_owned(), service)]);
    properties.extend(name.map(|name| ("lustre:fsname".to_owned(), name.to_owned())));
    properties.extend(mgs.then(|| ("lustre:mgs".to_owned(), "1".to_owned())));
    pool.datasets.insert((*device).to_owned(), properties);
    Ok(format!("   Permanent disk data:\nWriting {device} properties\n"))
}
