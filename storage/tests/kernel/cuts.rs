//! LVM's commands killed in their middle: before each write to a device and each call of the kernel that they make, one
//! after another, over the whole life of a volume. An agent that is killed takes its commands along, and so does a loss of
//! power.
//!
//! The directory that `WARREN_TEST_CUTS` names, first in `PATH`, is filled with stand-ins of LVM's commands, which start the
//! real ones beneath strace(1).

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use storage::{Host, desired::VolumeLayer};

use super::*;
use crate::{
    by_hand::skip,
    scenarios::volumes::{lines, striped},
    with_lvm,
};

/// The commands of which a volume is made, and those of which it is undone.
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

/// Each start of a command counts how far it may go, and one further each time; one that ends by itself has been cut
/// everywhere.
const STAND_IN: &str = r#"#!/bin/bash
here=${0%/*}; command=${0##*/}
real=$(PATH=${PATH#*:} type -P "$command")
at=$(cat "$here/$command.at" 2>/dev/null || echo 0)
[ "$at" = 0 ] && exec "$real" "$@"
echo $((at + 1)) > "$here/$command.at"
strace --quiet=all --follow-forks --output "$here/trace" --trace io_submit,ioctl \
    --inject "io_submit,ioctl:signal=KILL:when=$at" "$real" "$@"
code=$?
[ $code = 137 ] && echo "$command before its call $at: $(tail -n 1 "$here/trace")" >> "$here/cuts"
exit $code
"#;

struct Cuts {
    stand_ins: PathBuf,
}

impl Cuts {
    fn set_up(stand_ins: PathBuf) -> Self {
        for command in COMMANDS {
            let path = stand_ins.join(command);
            fs::write(&path, STAND_IN).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            fs::write(stand_ins.join(format!("{command}.at")), "1").unwrap();
        }
        fs::write(stand_ins.join("cuts"), "").unwrap();
        Self { stand_ins }
    }

    fn told(&self) -> Vec<String> {
        let told = fs::read_to_string(self.stand_ins.join("cuts")).unwrap();
        told.lines().map(str::to_owned).collect()
    }

    /// Converges, over as many cuts as it takes; whatever fails must have been cut.
    fn through(&self, host: &Arc<dyn Host>, desired: &Desired) {
        loop {
            let before = self.told().len();
            let Err(error) = converge(host, desired) else { break };
            let told = self.told();
            assert!(told.len() > before, "after {:?}: {}", told.last(), chain(&error));
        }
        assert_eq!(settle(host, desired), [""; 0]);
    }

    /// Says how often each command was cut; each of these must have been.
    #[expect(clippy::print_stdout, reason = "shown with the verdict")]
    fn each_was(&self, commands: &[&str]) {
        let told = self.told();
        for command in commands {
            let cuts = told.iter().filter(|cut| cut.split(' ').next() == Some(command)).count();
            println!("{command}: {cuts} cuts");
            assert!(cuts > 0, "{command} was never cut");
        }
    }
}

fn with_cuts(story: impl FnOnce(&Lab, &Cuts)) {
    let Some(stand_ins) = std::env::var_os("WARREN_TEST_CUTS") else {
        return skip("cuts", "WARREN_TEST_CUTS names no directory, the first in PATH");
    };
    with_lvm(|lab| story(lab, &Cuts::set_up(stand_ins.into())));
}

/// Made, mounted on a compute, unmounted and removed.
fn life(lab: &Lab, cuts: &Cuts, fs: &FileSystem) {
    let (rabbit, compute) = (lab.rabbit(), lab.compute("compute-1"));
    cuts.through(&rabbit, &Desired::FileSystemReady(fs.clone()));
    let mount = mount_of(fs, lab.point("cut"));
    cuts.through(&compute, &Desired::Mounted(mount.clone()));
    cuts.through(&compute, &Desired::Unmounted(mount));
    cuts.through(&rabbit, &Desired::FileSystemGone(fs.clone()));
    let seen = rabbit.observe(&Desired::FileSystemReady(fs.clone())).unwrap();
    let report = seen.volume.unwrap().lvm.unwrap().report.unwrap();
    assert!(
        report.physical.iter().all(|it| it.is_marked) && report.groups.is_empty(),
        "{report:?}"
    );
}

#[test]
fn cuts_striped() {
    with_cuts(|lab, cuts| {
        life(lab, cuts, &striped(lab));
        cuts.each_was(&["pvcreate", "vgcreate", "lvcreate", "lvchange"]);
        cuts.each_was(&["lvremove", "vgremove", "pvremove"]);
    });
}

#[test]
fn cuts_raid() {
    with_cuts(|lab, cuts| {
        life(lab, cuts, &raid(lab));
        cuts.each_was(&["pvcreate", "vgcreate", "lvcreate", "lvchange"]);
        cuts.each_was(&["lvremove", "vgremove", "pvremove"]);
    });
}

/// The same volume as a mirror.
fn raid(lab: &Lab) -> FileSystem {
    let mut fs = striped(lab);
    let (group, name) = (&fs.volume.group, &fs.volume.logical);
    let mut lines = lines(&fs.volume);
    lines.lv_create = command(&format!(
        "--zero n --activate n --type raid1 --mirrors 1 --nosync --size 304M --name {name} {group}"
    ));
    fs.volume.layer = VolumeLayer::Lvm(Box::new(lines));
    fs
}
