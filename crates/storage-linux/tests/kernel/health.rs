//! Tests how the kernel shows a file system that accepts no writes.

use std::collections::BTreeMap;

use storage::{
    Desired,
    health::{Answer, FileSystemFacts, Probe},
};
use storage_linux::health::LinuxProbe;

use crate::{
    by_hand::must,
    lab::{Lab, with_lab},
    scenarios::{World, create_file_system, mount_of, settle},
};

/// Returns the file systems at the lab's mount points, each under the last part of its path.
fn file_systems(lab: &Lab) -> BTreeMap<String, FileSystemFacts> {
    let probe = LinuxProbe::new(lab.roots().clone(), BTreeMap::new());
    let facts = probe.facts();
    assert!(facts.unread.is_empty(), "{:?}", facts.unread);
    let named =
        |facts: FileSystemFacts| (facts.target.rsplit('/').next().unwrap().to_owned(), facts);
    facts.file_systems.unwrap().into_iter().map(named).collect()
}

#[test]
fn a_shut_down_xfs_is_reported_although_its_mount_shows_rw() {
    with_lab(|lab| {
        let (_, fs) = create_file_system(lab, 0);
        let mount = mount_of(&fs, lab.point("a"));
        settle(&lab.rabbit(), &Desired::Mounted(mount.clone()));
        assert_eq!(file_systems(lab)["a"].answer, Answer::Well);
        let path = mount.target.path();
        must("xfs_io", &["-x", "-c", "shutdown", path.to_str().unwrap()]);
        let facts = &file_systems(lab)["a"];
        assert!(
            matches!(&facts.answer, Answer::ShutDown(why) if why.contains("Input/output error")),
            "{facts:?}"
        );
        assert_eq!(
            (facts.kind.as_str(), facts.is_mounted_read_only, facts.is_read_only),
            ("xfs", false, false)
        );
        // The file system can still be observed, and can be unmounted.
        settle(&lab.rabbit(), &Desired::Unmounted(mount));
        assert!(file_systems(lab).is_empty());
    });
}

#[test]
fn a_read_only_file_system_is_distinguished_from_a_read_only_mount() {
    with_lab(|lab| {
        let (_, fs) = create_file_system(lab, 0);
        let mount = mount_of(&fs, lab.point("a"));
        settle(&lab.rabbit(), &Desired::Mounted(mount.clone()));
        let path = mount.target.path();
        let (here, there) = (path.to_str().unwrap(), path.with_file_name("b"));
        std::fs::create_dir(&there).unwrap();
        must("mount", &["--bind", here, there.to_str().unwrap()]);
        let read_only = |name: &str| {
            let facts = &file_systems(lab)[name];
            (facts.is_mounted_read_only, facts.is_read_only)
        };
        assert_eq!((read_only("a"), read_only("b")), ((false, false), (false, false)));
        must("mount", &["-o", "remount,bind,ro", there.to_str().unwrap()]);
        assert_eq!((read_only("a"), read_only("b")), ((false, false), (true, false)));
        must("mount", &["-o", "remount,bind,rw", there.to_str().unwrap()]);
        must("mount", &["-o", "remount,ro", here]);
        // The mount at b simulates a file system that the kernel made read-only: the options of the mount itself still
        // show `rw`.
        assert_eq!((read_only("a"), read_only("b")), ((true, true), (false, true)));
        must("umount", &[there.to_str().unwrap()]);
        std::fs::remove_dir(there).unwrap();
        settle(&lab.rabbit(), &Desired::Unmounted(mount));
    });
}
