//! Trees with which a user tries to make `datamover` leave its roots or fail.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use movement::report::Outcome;

use crate::{site::Site, trees};

#[test]
fn a_source_or_destination_path_that_leaves_the_storage_through_a_link_is_refused() {
    let Some(site) = Site::new(512 << 20) else { return };
    symlink("/etc", site.source().join("etc")).unwrap();
    symlink("..", site.source().join("up")).unwrap();
    for source in ["/etc/", "/etc/hostname", "/up/target/"] {
        let Outcome::Stopped(reason) = site.copy(source, "/out", None).outcome else {
            panic!("datamover copied {source} from outside the storage")
        };
        assert!(reason.starts_with(&format!("source {source:?}: ")), "{reason}");
    }
    fs::write(site.source().join("file"), "1").unwrap();
    symlink("/tmp", site.target("tmp")).unwrap();
    for target in ["/tmp/", "/tmp/new/"] {
        let Outcome::Stopped(reason) = site.copy("/file", target, None).outcome else {
            panic!("datamover copied to {target} outside the storage")
        };
        assert!(reason.starts_with(&format!("destination {target:?}: ")), "{reason}");
    }
}

#[test]
fn an_unreadable_file_is_listed_as_failed_and_an_unwritable_destination_is_refused() {
    let Some(site) = Site::new(512 << 20) else { return };
    for name in ["mine", "roots"] {
        fs::write(site.source().join(name), "1").unwrap();
    }
    trees::own(&site.source());
    let roots = site.source().join("roots");
    fs::set_permissions(&roots, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    std::os::unix::fs::chown(&roots, Some(0), Some(0)).unwrap();
    let ended = site.copy("/", "/out", None);
    assert_eq!((ended.outcome, ended.progress.files, ended.progress.failed), (Outcome::Done, 1, 1));
    let failures = site.failures();
    assert!(failures.contains("/roots") && failures.contains("\"errno\":13"), "{failures}");

    fs::create_dir(site.target("roots")).unwrap();
    let ended = site.copy("/mine", "/roots/", None);
    let Outcome::Stopped(reason) = ended.outcome else {
        panic!("datamover wrote to a directory of root")
    };
    assert!(reason.contains("Permission denied"), "{reason}");
}

/// A thread replaces a directory by a link and back, again and again, during copies.
#[test]
fn a_directory_that_is_replaced_by_a_link_during_the_copy_is_not_followed() {
    let Some(site) = Site::new(512 << 20) else { return };
    let (real, other) = (site.source().join("d"), site.source().join("e"));
    for number in 0..50 {
        fs::create_dir_all(real.join(format!("{number}"))).unwrap();
        fs::write(real.join(format!("{number}/f")), "inside").unwrap();
    }
    trees::own(&site.source());
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Relaxed) {
                fs::rename(&real, &other).unwrap();
                symlink("/etc", &real).unwrap();
                fs::remove_file(&real).unwrap();
                fs::rename(&other, &real).unwrap();
            }
        });
        for number in 0..30 {
            site.copy("/", &format!("/{number}"), None);
        }
        ended.store(true, Relaxed);
    });
    let copied = trees::entries(&site.target(""));
    assert!(copied.iter().all(|path| !path.ends_with("passwd")), "{copied:?}");
}

#[test]
fn a_tree_that_is_too_deep_counts_as_one_failure_and_the_rest_is_copied() {
    let Some(site) = Site::new(512 << 20) else { return };
    fs::write(site.source().join("file"), "1").unwrap();
    let mut here = fs::File::open(site.source()).unwrap();
    for _ in 0..3000 {
        rustix::fs::mkdirat(&here, "d", rustix::fs::Mode::RWXU).unwrap();
        rustix::fs::chownat(
            &here,
            "d",
            Some(rustix::fs::Uid::from_raw(1050)),
            None,
            rustix::fs::AtFlags::empty(),
        )
        .unwrap();
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        here = rustix::fs::openat(&here, "d", flags, rustix::fs::Mode::empty()).unwrap().into();
    }
    let ended = site.copy("/", "/out", None);
    assert_eq!((ended.outcome, ended.progress.failed), (Outcome::Done, 1));
    assert!(site.failures().contains("File name too long"));
    assert!(site.target("out/file").exists());
}
