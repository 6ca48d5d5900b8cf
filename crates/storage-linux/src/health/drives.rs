//! Reads the kernel's facts about NVMe drives.
//!
//! One call reads a drive's facts, and another call reads its temperature. For the temperature, the kernel sends
//! a command to the drive, and while the drive is being reset this command waits. The kernel knows all other
//! facts without a command.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    thread,
};

use process::bounded::BoundedCalls;
use storage::{
    desired::{NamespaceId, Nqn},
    health::{DriveFacts, Temperature},
};

use super::pci;
use drives::nvme::{ControllerNode, Sysfs, attribute};

const DRIVES: &str = "drives in /sys/class/nvme";
const BLOCKS: &str = "namespaces in /sys/class/block";

/// Reads the facts of every drive whose physical function this node has. Adds to `unread` a description of each read
/// that fails; the results of the other reads are still used.
pub(super) fn read(
    sysfs: &Path,
    calls: &BoundedCalls,
    unread: &mut Vec<String>,
) -> BTreeMap<Nqn, DriveFacts> {
    let nvme = Sysfs::new(sysfs);
    let listed = calls.run(DRIVES, move || Ok((nvme.controllers()?, nvme.misnamed()?))).flatten();
    let (mut controllers, misnamed) = or_note(DRIVES, listed, unread).unwrap_or_default();
    unread.extend(misnamed);
    // A drive with two ports has two controllers: keep only the first.
    let mut listed_nqns = BTreeSet::new();
    controllers
        .retain(|controller| controller.is_physical && listed_nqns.insert(controller.nqn.clone()));
    let mut found = BTreeMap::new();
    thread::scope(|scope| {
        let start_read = |controller: ControllerNode| {
            (controller.nqn.clone(), scope.spawn(move || drive(sysfs, &controller, calls)))
        };
        let threads: Vec<_> = controllers.into_iter().map(start_read).collect();
        for (nqn, thread) in threads {
            let text = "the agent panicked while it read this drive";
            let panicked = |_| (DriveFacts::default(), vec![text.to_owned()]);
            let (facts, why) = thread.join().unwrap_or_else(panicked);
            unread.extend(why.into_iter().map(|why| format!("drive {nqn}: {why}")));
            found.insert(nqn, facts);
        }
    });
    mark_read_only(sysfs, calls, &mut found, unread);
    found
}

/// Returns the value, or adds the error to `unread`.
fn or_note<T>(what: &str, read: io::Result<T>, unread: &mut Vec<String>) -> Option<T> {
    read.map_err(|error| unread.push(format!("{what}: {error}"))).ok()
}

/// Reads the facts of a drive; also returns the descriptions of the failed reads.
fn drive(
    sysfs: &Path,
    controller: &ControllerNode,
    calls: &BoundedCalls,
) -> (DriveFacts, Vec<String>) {
    let class = sysfs.join("class/nvme").join(&controller.name);
    let (at, function) = (class.clone(), controller.function.clone());
    let name = format!("{} in {}", controller.nqn, class.display());
    let (mut facts, mut unread) = calls
        .run(&name, move || cached_facts(&at, &function))
        .unwrap_or_else(|error| (DriveFacts::default(), vec![error.to_string()]));
    if facts.controller == "live" {
        let temperature = calls.run(&format!("temperature of {name}"), move || temperature(&class));
        facts.temperature =
            or_note("its temperature", temperature.flatten(), &mut unread).flatten();
    }
    (facts, unread)
}

/// Reads the facts that the kernel knows without a command to the drive.
fn cached_facts(class: &Path, function: &Path) -> (DriveFacts, Vec<String>) {
    let mut unread = Vec::new();
    let controller = or_note("its state", attribute(class, "state"), &mut unread).flatten();
    let facts = DriveFacts {
        controller: controller.unwrap_or_default(),
        link: or_note("its PCIe link", pci::link(function), &mut unread),
        errors: or_note("errors of its PCIe link", pci::errors(function), &mut unread).flatten(),
        ..DriveFacts::default()
    };
    (facts, unread)
}

fn mark_read_only(
    sysfs: &Path,
    calls: &BoundedCalls,
    found: &mut BTreeMap<Nqn, DriveFacts>,
    unread: &mut Vec<String>,
) {
    let at = sysfs.to_owned();
    let listed = calls.run(BLOCKS, move || blocks(&at)).flatten();
    let Some(blocks) = or_note(BLOCKS, listed, unread) else { return };
    for drive in found.values_mut() {
        drive.read_only = Some(Vec::new());
    }
    for (id, is_read_only) in blocks {
        let Some(drive) = found.get_mut(&id.subsystem) else { continue };
        match or_note(&format!("namespace {id}"), is_read_only, unread) {
            Some(true) => drive.read_only.iter_mut().for_each(|nsids| nsids.push(id.nsid)),
            Some(false) => {}
            None => drive.read_only = None,
        }
    }
}

/// Lists all namespaces that this node has as block devices; the flag says whether the block device is read-only.
fn blocks(sysfs: &Path) -> io::Result<Vec<(NamespaceId, io::Result<bool>)>> {
    let is_read_only = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        let text = attribute(&sysfs.join("class/block").join(name), "ro")?;
        Ok(text.is_some_and(|text| text == "1"))
    };
    let blocks = Sysfs::new(sysfs).blocks()?.into_iter().map(|block| block.device);
    Ok(blocks.map(|block| (block.namespace, is_read_only(&block.path))).collect())
}

/// Reads the composite temperature (drivers/nvme/host/hwmon.c). Since Linux 5.19, `hwmonN` lies beneath the controller;
/// before, it was beneath the controller's PCI function.
fn temperature(controller: &Path) -> io::Result<Option<Temperature>> {
    for directory in
        [controller.to_owned(), controller.join("device/hwmon"), controller.join("hwmon")]
    {
        let Ok(listing) = fs::read_dir(&directory) else { continue };
        for entry in listing {
            let entry = entry?;
            if !entry.file_name().to_string_lossy().starts_with("hwmon") {
                continue;
            }
            let read = |name| Ok::<_, io::Error>(degrees(attribute(&entry.path(), name)?));
            if let Some(now) = read("temp1_input")? {
                let (warning, critical) = (read("temp1_max")?, read("temp1_crit")?);
                return Ok(Some(Temperature { now, warning, critical }));
            }
        }
    }
    Ok(None)
}

/// Converts thousandths of a degree (Documentation/hwmon/sysfs-interface.rst). For a drive without a threshold the
/// kernel shows zero kelvin, which gives `None`.
fn degrees(text: Option<String>) -> Option<i64> {
    let thousandths: i64 = text?.parse().ok()?;
    Some(thousandths / 1000).filter(|degrees| *degrees > -273)
}

#[cfg(test)]
mod tests;
