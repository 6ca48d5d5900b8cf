//! `datamover` as an agent runs it: on a real XFS, as another user than root, killed, cancelled and attacked.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod hostile;
mod killed;
mod site;
mod trees;

use std::{fs, os::unix::fs::MetadataExt};

use movement::report::Outcome;
use site::{Site, USER};

#[test]
fn every_kind_of_entry_is_copied_with_mode_and_times() {
    let Some(site) = Site::new(512 << 20) else { return };
    trees::plant(&site.source());
    let ended = site.copy("/", "/out", Some("rabbit-1-0"));
    assert_eq!(ended.outcome, Outcome::Done, "{}", site.failures());
    assert_eq!(ended.progress.failed, 0, "{}", site.failures());
    trees::assert_same(&site.source(), &site.target("out/rabbit-1-0"));
    let made = fs::metadata(site.target("out")).unwrap();
    assert_eq!((made.uid(), made.mode() & 0o7777), (USER, 0o755));
    let total = ended.progress.total.unwrap();
    assert_eq!((total.files, total.bytes), (ended.progress.files, ended.progress.bytes));
}

/// The kernel shares the blocks (ioctl_ficlone(2)): the copy needs no space.
#[test]
fn a_copy_within_a_file_system_that_is_nearly_full_shares_blocks() {
    let Some(site) = Site::new(512 << 20) else { return };
    fs::write(site.source().join("file"), vec![7; 200 << 20]).unwrap();
    let within = |order: &mut movement::order::Order| order.destination.root = site.source();
    let ended = site.run(within, "/file", "/copy");
    assert_eq!(ended.outcome, Outcome::Done, "{}", site.failures());
    let copy = fs::read(site.source().join("copy")).unwrap();
    assert!(copy.len() == 200 << 20 && copy.iter().all(|byte| *byte == 7));
}

#[test]
fn extended_attributes_are_copied_if_ordered() {
    let Some(site) = Site::new(512 << 20) else { return };
    let file = site.source().join("file");
    fs::write(&file, "content").unwrap();
    std::os::unix::fs::chown(&file, Some(USER), Some(USER)).unwrap();
    rustix::fs::setxattr(&file, "user.colour", b"red", rustix::fs::XattrFlags::empty()).unwrap();
    for (copies_xattrs, expected) in [(false, None), (true, Some(b"red".to_vec()))] {
        let target = format!("/{copies_xattrs}/");
        let ended = site.run(|order| order.copies_xattrs = copies_xattrs, "/file", &target);
        assert_eq!(ended.outcome, Outcome::Done, "{}", site.failures());
        let mut value = [0; 64];
        let copy = site.target(&format!("{copies_xattrs}/file"));
        let length = rustix::fs::getxattr(copy, "user.colour", &mut value[..]).ok();
        assert_eq!(length.map(|length| value[..length].to_vec()), expected);
    }
}

#[test]
fn a_cancelled_copy_leaves_no_temporary_file() {
    let Some(site) = Site::new(512 << 20) else { return };
    trees::plant(&site.source());
    let mut run = site.start(|order| order.rate = Some(1 << 20), "/", "/out");
    run.until_progress(|progress| progress.bytes > 0);
    run.say("\"cancel\"");
    let ended = run.end().unwrap();
    assert_eq!(ended.outcome, Outcome::Cancelled);
    assert!(
        trees::temporary(&site.target("out")).is_empty(),
        "{:?}",
        trees::temporary(&site.target("out"))
    );
}

#[test]
fn what_an_abandoned_copy_left_is_cleaned_up() {
    let Some(site) = Site::new(512 << 20) else { return };
    trees::plant(&site.source());
    let mut run = site.start(|order| order.rate = Some(1 << 20), "/", "/out");
    run.until_progress(|progress| progress.bytes > 0);
    // As when the agent is killed: the standard input closes.
    assert_eq!(run.abandon(), None);
    assert!(!trees::temporary(&site.target("out")).is_empty());
    let ended = site.run(|order| order.task = movement::order::Task::Clean, "/", "/out");
    assert_eq!(ended.outcome, Outcome::Done);
    assert!(trees::temporary(&site.target("out")).is_empty());
}

#[test]
fn a_rate_may_change_while_copying() {
    let Some(site) = Site::new(512 << 20) else { return };
    trees::plant(&site.source());
    let mut run = site.start(|order| order.rate = Some(1), "/", "/out");
    run.say("{\"rate\":null}");
    assert_eq!(run.end().unwrap().outcome, Outcome::Done);
}

#[test]
fn a_destination_that_is_too_small_is_refused_before_anything_is_copied() {
    let Some(site) = Site::new(512 << 20) else { return };
    let file = fs::File::create(site.source().join("file")).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 300 << 20).unwrap();
    let taken = fs::File::create(site.target("taken")).unwrap();
    rustix::fs::fallocate(&taken, rustix::fs::FallocateFlags::empty(), 0, 300 << 20).unwrap();
    let Outcome::Stopped(reason) = site.copy("/", "/out", None).outcome else { panic!("it fits") };
    assert!(
        reason.contains("314572800 bytes are to be copied")
            && reason.contains("nothing was copied"),
        "{reason}"
    );
    assert!(!site.target("out/file").exists());
}

#[test]
fn a_destination_that_fills_up_ends_the_copy_with_the_missing_bytes() {
    let Some(site) = Site::new(512 << 20) else { return };
    for number in 0..60 {
        fs::write(site.source().join(format!("{number}")), vec![7; 4 << 20]).unwrap();
    }
    let mut run = site.start(|order| order.rate = Some(8 << 20), "/", "/out");
    run.until_progress(|progress| progress.bytes > 0);
    let rest = fs::File::create(site.target("taken")).unwrap();
    let free = rustix::fs::statvfs(site.target("")).unwrap();
    let most = free.f_bavail * free.f_frsize - (16 << 20);
    rustix::fs::fallocate(&rest, rustix::fs::FallocateFlags::empty(), 0, most).unwrap();
    run.say("{\"rate\":null}");
    let Outcome::Stopped(reason) = run.end().unwrap().outcome else { panic!("it fits") };
    assert!(
        reason.contains("no space is left") && reason.contains("bytes are missing"),
        "{reason}"
    );
    assert!(trees::temporary(&site.target("out")).is_empty());
}
