//! Runs the commands of LVM: one report on a volume's devices for each observation, and one command for each step.
//!
//! Every command gets the list of the volume's devices (`--devices`), so that LVM neither scans the other disks of the
//! node nor finds a group with the same name on another disk.

mod label;

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use causes::CommandError;
pub(super) use label::unmark;
use process::Cmd;
use serde::Deserialize;
use storage::{
    host::ObserveError,
    observed::{BlockDevice, LogicalVolume, LvmReport, Membership, PhysicalVolume, VolumeGroup},
    step::VolumeAction,
};

use block_devices::busy::pause_for;

/// Interval between checks whether udev has created a device node.
const NODE_EVERY: Duration = Duration::from_millis(20);

/// The fields that LVM reports of each group (lvm-fullreport(8)). `--nolocking`, because a lost node may hold the lock;
/// `--shared`, because a shared group is observed before this node joins its lock space.
const REPORT: &str = "fullreport --reportformat json --nolocking --shared \
    --configreport vg -o vg_name,vg_tags,vg_lock_type,vg_missing_pv_count \
    --configreport pv -o pv_name,pv_missing,pv_in_use \
    --configreport lv -o lv_name,lv_tags,lv_layout,sync_percent,lv_health_status,lv_device_open \
    --configreport pvseg -o pv_name --configreport seg -o lv_name";

#[derive(Deserialize)]
struct FullReport {
    report: Vec<Found>,
}

/// One group of the report; or the devices that are in no group.
#[derive(Deserialize)]
struct Found {
    #[serde(default)]
    vg: Vec<FoundGroup>,
    #[serde(default)]
    pv: Vec<FoundPhysical>,
    #[serde(default)]
    lv: Vec<FoundLogical>,
}

#[derive(Deserialize)]
struct FoundGroup {
    vg_name: String,
    vg_tags: String,
    vg_lock_type: String,
    vg_missing_pv_count: String,
}

#[derive(Deserialize)]
struct FoundPhysical {
    pv_name: String,
    #[serde(default)]
    pv_missing: String,
    #[serde(default)]
    pv_in_use: String,
}

#[derive(Deserialize)]
struct FoundLogical {
    lv_name: String,
    lv_tags: String,
    lv_layout: String,
    sync_percent: String,
    lv_health_status: String,
    lv_device_open: String,
}

/// Reads the LVM objects on `devices`.
pub(super) fn report(
    devices: &[BlockDevice],
    deadline: Duration,
) -> Result<LvmReport, ObserveError> {
    let output = Cmd::shell(&format!("lvm {REPORT} {}", only(devices))).output(deadline)?;
    parse_report(&output)
        .map_err(|why| ObserveError::Malformed { what: "output of lvm fullreport".to_owned(), why })
}

fn parse_report(output: &[u8]) -> Result<LvmReport, String> {
    let report: FullReport = serde_json::from_slice(output).map_err(|error| error.to_string())?;
    let mut lvm_report = LvmReport::default();
    for found in report.report {
        let group = found.vg.into_iter().find(|group| !group.vg_name.is_empty());
        // LVM shows a missing member as `[unknown]`.
        let members = found.pv.into_iter().filter(|member| member.pv_name.starts_with('/'));
        lvm_report.physical.extend(members.map(|member| PhysicalVolume {
            membership: membership(&member, group.as_ref()),
            device: PathBuf::from(member.pv_name),
        }));
        if let Some(group) = group {
            let volumes = found.lv.into_iter().map(logical).collect::<Result<_, _>>()?;
            lvm_report.groups.push(volume_group(group, volumes)?);
        }
    }
    Ok(lvm_report)
}

fn membership(member: &FoundPhysical, group: Option<&FoundGroup>) -> Membership {
    match group.map(|group| group.vg_name.clone()) {
        Some(group) if member.pv_missing.is_empty() => Membership::Of(group),
        Some(group) => Membership::Stale(group),
        None if member.pv_in_use.is_empty() => Membership::Free,
        None => Membership::Marked,
    }
}

fn volume_group(group: FoundGroup, volumes: Vec<LogicalVolume>) -> Result<VolumeGroup, String> {
    let missing = group.vg_missing_pv_count.parse().map_err(|_| {
        format!("vg_missing_pv_count of {} is {:?}", group.vg_name, group.vg_missing_pv_count)
    })?;
    let is_shared = !matches!(group.vg_lock_type.as_str(), "" | "none");
    Ok(VolumeGroup { name: group.vg_name, tags: list(&group.vg_tags), is_shared, missing, volumes })
}

fn logical(found: FoundLogical) -> Result<LogicalVolume, String> {
    let synced = Some(found.sync_percent.as_str()).filter(|text| !text.is_empty());
    let synced = synced.map(str::parse).transpose();
    let synced = synced
        .map_err(|_| format!("sync_percent of {} is {:?}", found.lv_name, found.sync_percent))?;
    Ok(LogicalVolume {
        name: found.lv_name,
        tags: list(&found.lv_tags),
        is_open: found.lv_device_open == "open",
        is_raid: list(&found.lv_layout).iter().any(|layout| layout == "raid"),
        synced,
        trouble: Some(found.lv_health_status).filter(|status| !status.is_empty()),
    })
}

fn list(text: &str) -> Vec<String> {
    text.split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

fn only(devices: &[BlockDevice]) -> String {
    let paths: Vec<_> = devices.iter().map(|device| device.path.display().to_string()).collect();
    format!("--devices {}", shell_words::quote(&paths.join(",")))
}

/// Runs the LVM command of `action` with the site's arguments, on `devices` only.
pub(super) fn run(
    action: VolumeAction,
    devices: &[BlockDevice],
    line: &str,
    deadline: Duration,
) -> Result<(), CommandError> {
    Cmd::shell(&command(action, devices, line)).run(deadline)
}

/// Builds the command, with `--yes` where LVM would ask a question. Some sites' lines contain `--yes` already, and LVM
/// refuses an option that is given twice.
fn command(action: VolumeAction, devices: &[BlockDevice], line: &str) -> String {
    let says_yes = line.split_whitespace().any(|word| word == "--yes" || word == "-y");
    let yes = if action.is_asked_about() && !says_yes { " --yes" } else { "" };
    format!("{}{yes} {} {line}", action.command(), only(devices))
}

/// Waits for a device node in `/dev/mapper`, which udev creates with some delay.
pub(super) fn wait_for_node(path: &Path, deadline: Duration) -> io::Result<()> {
    let until = Instant::now() + deadline;
    while !path.try_exists()? {
        if Instant::now() >= until {
            return Err(io::Error::other(format!(
                "the device node does not exist after {} s: check that systemd-udevd runs",
                deadline.as_secs_f32()
            )));
        }
        pause_for(NODE_EVERY);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::{desired::NamespaceId, observed::DeviceNumber};

    /// Output of LVM 2.03.16 for two devices in no group.
    const ORPHANS: &str = r#"{"report":[{"pv":[{"pv_name":"/dev/nvme0n1"},{"pv_name":"/dev/nvme1n1"}],"pvseg":[{"pv_name":"/dev/nvme0n1"}]}]}"#;

    /// Output of LVM for a RAID 5 that is being built, in a group that has lost a device.
    const GROUP: &str = r#"{"report":[{
        "vg":[{"vg_name":"a4f0_0_1","vg_tags":"77,warren","vg_lock_type":"dlm","vg_missing_pv_count":"1"}],
        "pv":[{"pv_name":"/dev/nvme0n1","pv_missing":""},{"pv_name":"[unknown]","pv_missing":"missing"},
            {"pv_name":"/dev/nvme2n1","pv_missing":"missing"}],
        "lv":[{"lv_name":"lv","lv_tags":"warren.x","lv_layout":"raid,raid5,raid5_ls","sync_percent":"25.02","lv_health_status":"partial","lv_device_open":"open"}],
        "pvseg":[],"seg":[{"lv_name":"lv"}]}]}"#;

    #[test]
    fn devices_without_a_group_are_reported_without_groups() {
        assert_eq!(parse_report(br#"{"report":[]}"#).unwrap(), LvmReport::default());
        let lvm_report = parse_report(ORPHANS.as_bytes()).unwrap();
        assert_eq!((lvm_report.physical.len(), lvm_report.groups.len()), (2, 0));
        assert!(lvm_report.physical.iter().all(|physical| physical.group().is_none()));
    }

    #[test]
    fn a_group_is_parsed_with_its_members_and_volumes() {
        let lvm_report = parse_report(GROUP.as_bytes()).unwrap();
        let group = lvm_report.group("a4f0_0_1").unwrap();
        assert!(group.is_shared && group.is_warrens());
        let members: Vec<_> =
            lvm_report.physical.iter().map(|physical| physical.membership.clone()).collect();
        let name = || "a4f0_0_1".to_owned();
        assert_eq!(group.missing, 1);
        assert_eq!(members, [Membership::Of(name()), Membership::Stale(name())]);
        let volume = group.volume("lv").unwrap();
        assert!(volume.is_raid && volume.is_syncing() && volume.is_open && volume.is_partial());
        assert_eq!(volume.synced.unwrap().to_string(), "25.02");
        assert_eq!(volume.trouble.as_deref(), Some("partial"));
    }

    #[test]
    fn command_restricts_lvm_to_the_devices_and_says_yes_once() {
        let namespace = NamespaceId::parse("nqn.2026-01.io.warren:d0", "1").unwrap();
        let number = DeviceNumber { major: 259, minor: 1 };
        let path = PathBuf::from("/dev/nvme0n1");
        let devices = [BlockDevice { namespace, path, number }];
        let lvcreate = |line| command(VolumeAction::CreateLogical, &devices, line);
        let end = "--devices /dev/nvme0n1";
        assert_eq!(lvcreate("--name lv vg"), format!("lvcreate --yes {end} --name lv vg"));
        assert_eq!(lvcreate("--yes --name lv vg"), format!("lvcreate {end} --yes --name lv vg"));
        let activated = command(VolumeAction::Activate, &devices, "-ay vg/lv");
        assert_eq!(activated, format!("lvchange {end} -ay vg/lv"));
    }

    #[test]
    fn malformed_reports_are_errors() {
        assert!(parse_report(b"").is_err());
        let strange = GROUP.replace(r#""vg_missing_pv_count":"1""#, r#""vg_missing_pv_count":"""#);
        assert!(parse_report(strange.as_bytes()).unwrap_err().contains("vg_missing_pv_count"));
        let strange = GROUP.replace("25.02", "half");
        assert!(parse_report(strange.as_bytes()).unwrap_err().contains("sync_percent of lv"));
    }
}
