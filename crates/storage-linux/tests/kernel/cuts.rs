//! Kills LVM's commands before each of their calls of io_submit(2) and ioctl(2), one after another, over the whole life
//! of a volume. With these calls LVM reads and writes devices, and changes the tables of the device mapper. LVM's
//! commands end in this way when their agent is killed or the node loses power.
//!
//! The test writes stand-ins for LVM's commands into the directory that `WARREN_TEST_CUTS` names; this directory must
//! come first in `PATH`. A stand-in starts the real command under strace(1), which kills it. A killed command is called
//! a cut.

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

/// The commands that create, repair and remove a volume.
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

/// The commands that create, activate and remove a volume.
const LIFE: [&str; 6] = ["pvcreate", "vgcreate", "lvcreate", "lvchange", "lvremove", "vgremove"];

/// A stand-in kills its command before the command's n-th such call; n grows by one with each start of the stand-in.
/// When n exceeds the number of the command's calls, the command ends by itself; it has then been killed before each of
/// its calls. The stand-in does not kill processes that the command started: dmeventd(8), for example, keeps running.
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

/// Commands that print the state of the node when the test fails.
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

    /// From now on, the stand-ins kill every command; a command's first start is killed before its first call.
    fn begin(&self) {
        self.at("1");
    }

    /// From now on, the stand-ins run every command to its end.
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

    /// Converges again and again as long as commands are killed; panics when it fails although no command was killed.
    #[expect(clippy::disallowed_methods, reason = "no event tells how far a mirror is")]
    fn converge_through_cuts(&self, host: &Arc<dyn Host>, desired: &Desired) {
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
                let leftovers = must("sh", &["-c", LEFT]);
                panic!("after {:?}: {}\n{leftovers}", cuts.last(), chain(&error));
            }
        }
        assert_eq!(settle(host, desired), [""; 0]);
    }

    /// Prints how often each command was killed, and panics if a command in `commands` was never killed.
    #[expect(clippy::print_stdout, reason = "the test's output shows the counts")]
    fn report_cuts(&self, commands: &[&str]) {
        let cuts = self.recorded_cuts();
        for command in commands {
            let count = cuts.iter().filter(|cut| cut.split(' ').next() == Some(command)).count();
            println!("{command}: {count} cuts");
            assert!(count > 0, "{command} was never killed");
        }
    }
}

fn with_cuts(story: impl FnOnce(&Lab, &Cuts)) {
    let stand_ins = std::env::var_os("WARREN_TEST_CUTS");
    let missing =
        stand_ins.is_none().then_some("WARREN_TEST_CUTS does not name the first directory of PATH");
    if gate::open("cuts", missing) {
        with_lvm(|lab| story(lab, &Cuts::set_up(stand_ins.unwrap().into())));
    }
}

/// Creates a volume, mounts it on a compute, unmounts and removes it.
fn run_life_cycle(lab: &Lab, cuts: &Cuts, fs: &FileSystem) {
    let (rabbit, compute) = (lab.rabbit(), lab.compute("compute-1"));
    cuts.converge_through_cuts(&rabbit, &Desired::FileSystemReady(fs.clone()));
    let mount = mount_of(fs, lab.point("cut"));
    cuts.converge_through_cuts(&compute, &Desired::Mounted(mount.clone()));
    cuts.converge_through_cuts(&compute, &Desired::Unmounted(mount));
    cuts.converge_through_cuts(&rabbit, &Desired::FileSystemGone(fs.clone()));
    let report = lvm_of(&rabbit, fs);
    assert!(
        report.physical.iter().all(PhysicalVolume::is_marked) && report.groups.is_empty(),
        "{report:?}"
    );
}

fn lvm_of(host: &Arc<dyn Host>, fs: &FileSystem) -> LvmReport {
    let observed = host.observe(&Desired::FileSystemReady(fs.clone())).unwrap();
    observed.volume.unwrap().lvm.unwrap().report.unwrap()
}

#[test]
fn a_striped_volume_converges_although_lvm_is_killed_at_every_call() {
    with_cuts(|lab, cuts| {
        cuts.begin();
        run_life_cycle(lab, cuts, &striped(lab));
        cuts.report_cuts(&LIFE);
    });
}

#[test]
fn a_raid_converges_although_lvm_is_killed_at_every_call() {
    with_cuts(|lab, cuts| {
        cuts.begin();
        run_life_cycle(lab, cuts, &raid(lab));
        cuts.report_cuts(&LIFE);
    });
}

/// Returns the file system of [`striped`], but on a mirror (RAID 1) instead of a striped volume.
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

/// Kills the commands that repair a mirror; `a_raid_converges_although_lvm_is_killed_at_every_call` kills the commands
/// that create and remove one.
#[test]
fn a_repair_converges_although_lvm_is_killed_at_every_call() {
    with_cuts(|lab, cuts| {
        let mut fs = raid(lab);
        let rabbit = lab.rabbit();
        cuts.converge_through_cuts(&rabbit, &Desired::FileSystemReady(fs.clone()));
        let lost = namespace_device(&rabbit, &fs.volume.namespaces[1]);
        must("dd", &["if=/dev/zero", &format!("of={lost}"), "bs=1M", "count=1", "conv=fsync"]);
        fs.volume.namespaces[1] = allocate(lab, &allocation(2, SIZE, &["compute-1"])).id;
        cuts.begin();
        cuts.converge_through_cuts(&rabbit, &Desired::FileSystemReady(fs.clone()));
        cuts.end();
        cuts.report_cuts(&["pvcreate", "vgextend", "lvconvert", "vgreduce"]);
        run_life_cycle(lab, cuts, &fs);
    });
}

fn namespace_device(host: &Arc<dyn Host>, id: &NamespaceId) -> String {
    let observed = host.observe(&Desired::Inventory).unwrap();
    let namespace = observed.namespaces.into_iter().find(|namespace| namespace.id == *id).unwrap();
    namespace.device.unwrap().display().to_string()
}

#[test]
fn a_shared_group_converges_although_lvm_is_killed_at_every_call() {
    let answers = run("sh", &["-c", "lvmlockctl --info"]).status.success();
    if !gate::open("lvmlockd", (!answers).then_some("lvmlockd does not answer")) {
        return;
    }
    with_cuts(|lab, cuts| {
        let fs = shared(lab);
        let rabbit = lab.rabbit();
        cuts.begin();
        cuts.converge_through_cuts(&rabbit, &Desired::FileSystemReady(fs.clone()));
        assert!(
            lvm_of(&rabbit, &fs).groups[0].is_shared,
            "a local group could be active on two nodes at once"
        );
        run_life_cycle(lab, cuts, &fs);
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
