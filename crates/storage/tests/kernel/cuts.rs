//! Kills LVM's commands before each of their writes to a device and each of their system calls, one after another, over
//! the whole life of a volume. Commands end this way when their agent is killed or the node loses power.
//!
//! The test fills the directory that `WARREN_TEST_CUTS` names, first in `PATH`, with stand-ins of LVM's commands, which
//! start the real ones under strace(1).

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use storage::{
    Host,
    desired::{NamespaceId, VolumeLayer},
    observed::{LvmReport, PhysicalVolume},
};

use super::*;
use crate::{
    by_hand::run,
    scenarios::volumes::{lines, striped},
    with_lvm,
};

/// The commands that create a volume, and the commands that remove it.
const COMMANDS: [&str; 11] = [
    "pvcreate",
    "vgcreate",
    "lvcreate",
    "lvchange",
    "vgchange",
    "vgextend",
    "lvconvert",
    "vgreduce",
    "lvremove",
    "vgremove",
    "pvremove",
];

/// The commands of a whole life.
const LIFE: [&str; 6] = ["pvcreate", "vgcreate", "lvcreate", "lvchange", "lvremove", "vgremove"];

/// Kills a command before its n-th call, where n grows by one with each start; a command that ends by itself has been
/// cut everywhere. Does not kill the processes that the command starts, such as dmeventd(8), which stays.
const STAND_IN: &str = r#"#!/bin/bash
here=${0%/*}; command=${0##*/}
real=$(PATH=${PATH#*:} type -P "$command")
at=$(cat "$here/$command.at" 2>/dev/null || echo 0)
[ "$at" = 0 ] && exec "$real" "$@"
echo $((at + 1)) > "$here/$command.at"
strace --quiet=all --output "$here/trace" --trace io_submit,ioctl \
    --inject "io_submit,ioctl:signal=KILL:when=$at" "$real" "$@"
code=$?
[ $code = 137 ] && echo "$command before its call $at: $(tail -n 1 "$here/trace")" >> "$here/cuts"
exit $code
"#;

/// Commands that print the state of the node when the test does not continue.
const LEFT: &str = "dmsetup info -c; dmsetup table; pvs -a; lvs -a; true";

struct Cuts {
    stand_ins: PathBuf,
}

impl Cuts {
    fn set_up(stand_ins: PathBuf) -> Self {
        for command in COMMANDS {
            let path = stand_ins.join(command);
            fs::write(&path, STAND_IN).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(stand_ins.join("cuts"), "").unwrap();
        let cuts = Self { stand_ins };
        cuts.end();
        cuts
    }

    /// Starts to cut every command.
    fn begin(&self) {
        self.at("1");
    }

    /// Stops cutting commands.
    fn end(&self) {
        self.at("0");
    }

    fn at(&self, call: &str) {
        for command in COMMANDS {
            fs::write(self.stand_ins.join(format!("{command}.at")), call).unwrap();
        }
    }

    fn recorded_cuts(&self) -> Vec<String> {
        let cuts = fs::read_to_string(self.stand_ins.join("cuts")).unwrap();
        cuts.lines().map(str::to_owned).collect()
    }

    /// Converges, repeating the call after each cut; fails when a call fails without a cut.
    #[expect(clippy::disallowed_methods, reason = "no event tells how far a mirror is")]
    fn through(&self, host: &Arc<dyn Host>, desired: &Desired) {
        loop {
            let before = self.recorded_cuts().len();
            let error = match converge(host, desired) {
                Ok(_) => break,
                Err(ConvergeError::Rejected(Rejection::Syncing { .. })) => {
                    std::thread::sleep(Duration::from_millis(200));
                    continue;
                }
                Err(error) => error,
            };
            let cuts = self.recorded_cuts();
            if cuts.len() == before {
                let left = must("sh", &["-c", LEFT]);
                panic!("after {:?}: {}\n{left}", cuts.last(), chain(&error));
            }
        }
        assert_eq!(settle(host, desired), [""; 0]);
    }

    /// Prints how often each command was cut, and fails if one of `commands` was never cut.
    #[expect(clippy::print_stdout, reason = "shown with the verdict")]
    fn report_cuts(&self, commands: &[&str]) {
        let cuts = self.recorded_cuts();
        for command in commands {
            let count = cuts.iter().filter(|cut| cut.split(' ').next() == Some(command)).count();
            println!("{command}: {count} cuts");
            assert!(count > 0, "{command} was never cut");
        }
    }
}

fn with_cuts(story: impl FnOnce(&Lab, &Cuts)) {
    let stand_ins = std::env::var_os("WARREN_TEST_CUTS");
    let missing =
        stand_ins.is_none().then_some("WARREN_TEST_CUTS names no directory, the first in PATH");
    if gate::open("cuts", missing) {
        with_lvm(|lab| story(lab, &Cuts::set_up(stand_ins.unwrap().into())));
    }
}

/// Creates a volume, mounts it on a compute, unmounts and removes it.
fn life(lab: &Lab, cuts: &Cuts, fs: &FileSystem) {
    let (rabbit, compute) = (lab.rabbit(), lab.compute("compute-1"));
    cuts.through(&rabbit, &Desired::FileSystemReady(fs.clone()));
    let mount = mount_of(fs, lab.point("cut"));
    cuts.through(&compute, &Desired::Mounted(mount.clone()));
    cuts.through(&compute, &Desired::Unmounted(mount));
    cuts.through(&rabbit, &Desired::FileSystemGone(fs.clone()));
    let report = lvm_of(&rabbit, fs);
    assert!(
        report.physical.iter().all(PhysicalVolume::is_marked) && report.groups.is_empty(),
        "{report:?}"
    );
}

fn lvm_of(host: &Arc<dyn Host>, fs: &FileSystem) -> LvmReport {
    let seen = host.observe(&Desired::FileSystemReady(fs.clone())).unwrap();
    seen.volume.unwrap().lvm.unwrap().report.unwrap()
}

#[test]
fn cuts_striped() {
    with_cuts(|lab, cuts| {
        cuts.begin();
        life(lab, cuts, &striped(lab));
        cuts.report_cuts(&LIFE);
    });
}

#[test]
fn cuts_raid() {
    with_cuts(|lab, cuts| {
        cuts.begin();
        life(lab, cuts, &raid(lab));
        cuts.report_cuts(&LIFE);
    });
}

/// Returns the same volume as a mirror.
fn raid(lab: &Lab) -> FileSystem {
    let mut fs = striped(lab);
    let (group, name) = (&fs.volume.group, &fs.volume.logical);
    let mut lines = lines(&fs.volume);
    lines.lv_create = command(&format!(
        "--zero n --activate n --type raid1 --mirrors 1 --nosync --size 304M --name {name} {group}"
    ));
    lines.vg_extend = command(&format!("{group} $DEVICE"));
    lines.vg_reduce = command(&format!("--removemissing {group}"));
    lines.lv_repair = command(&format!("{group}/{name}"));
    fs.volume.layer = VolumeLayer::Lvm(Box::new(lines));
    fs
}

/// This test cuts the repair of a mirror; `cuts_raid` cuts its creation and removal.
#[test]
fn cuts_repair() {
    with_cuts(|lab, cuts| {
        let mut fs = raid(lab);
        let rabbit = lab.rabbit();
        cuts.through(&rabbit, &Desired::FileSystemReady(fs.clone()));
        let lost = namespace_device(&rabbit, &fs.volume.namespaces[1]);
        must("dd", &["if=/dev/zero", &format!("of={lost}"), "bs=1M", "count=1", "conv=fsync"]);
        fs.volume.namespaces[1] = allocate(lab, &allocation(2, SIZE, &["compute-1"])).id;
        cuts.begin();
        cuts.through(&rabbit, &Desired::FileSystemReady(fs.clone()));
        cuts.end();
        cuts.report_cuts(&["pvcreate", "vgextend", "lvconvert", "vgreduce"]);
        life(lab, cuts, &fs);
    });
}

fn namespace_device(host: &Arc<dyn Host>, id: &NamespaceId) -> String {
    let seen = host.observe(&Desired::Inventory).unwrap();
    let namespace = seen.namespaces.into_iter().find(|namespace| namespace.id == *id).unwrap();
    namespace.device.unwrap().display().to_string()
}

#[test]
fn cuts_shared() {
    let answers = run("sh", &["-c", "lvmlockctl --info"]).status.success();
    if !gate::open("lvmlockd", (!answers).then_some("lvmlockd does not answer")) {
        return;
    }
    with_cuts(|lab, cuts| {
        let fs = shared(lab);
        let rabbit = lab.rabbit();
        cuts.begin();
        cuts.through(&rabbit, &Desired::FileSystemReady(fs.clone()));
        assert!(lvm_of(&rabbit, &fs).groups[0].is_shared, "two nodes could have it exclusively");
        life(lab, cuts, &fs);
        cuts.report_cuts(&LIFE);
        cuts.report_cuts(&["vgchange"]);
    });
}

/// Returns a file system in a group that other nodes may use.
fn shared(lab: &Lab) -> FileSystem {
    let mut fs = striped(lab);
    let group = &fs.volume.group;
    let mut lines = lines(&fs.volume);
    lines.vg_create = command(&format!("--shared --addtag job {group} $DEVICE_LIST"));
    lines.lock_start = command(&format!("--lock-start {group}"));
    lines.lock_stop = command(&format!("--lock-stop {group}"));
    fs.volume.layer = VolumeLayer::Lvm(Box::new(lines));
    fs
}
