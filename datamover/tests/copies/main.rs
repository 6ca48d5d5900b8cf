//! Runs `datamover` as an agent does: on a real XFS, as a user other than root, with kills, cancellations and hostile
//! trees.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod hostile;
mod killed;
mod paths;
mod shares;
mod site;
mod trees;

use std::{fs, os::unix::fs::MetadataExt};

use movement::report::Outcome;
use site::{Site, USER};

#[test]
fn every_type_of_entry_is_copied_with_mode_and_times() {
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

/// The kernel shares the blocks of source and copy (ioctl_ficlone(2)), so the copy needs no space.
#[test]
fn a_copy_within_a_nearly_full_file_system_shares_blocks() {
    let Some(site) = Site::new(512 << 20) else { return };
    fs::write(site.source().join("file"), vec![7; 200 << 20]).unwrap();
    let within = |order: &mut movement::order::Order| order.destination.root = site.source();
    let ended = site.run(within, "/file", "/copy");
    assert_eq!(ended.outcome, Outcome::Done, "{}", site.failures());
    let copy = fs::read(site.source().join("copy")).unwrap();
    assert!(copy.len() == 200 << 20 && copy.iter().all(|byte| *byte == 7));
}

/// Here files of up to one block share their blocks, holes included.
#[test]
fn a_tree_within_one_file_system_is_copied_with_mode_and_times() {
    let Some(site) = Site::new(512 << 20) else { return };
    let (source, copy) = (site.source().join("in"), site.source().join("out/in"));
    fs::create_dir(&source).unwrap();
    trees::plant(&source);
    let within = |order: &mut movement::order::Order| order.destination.root = site.source();
    let ended = site.run(within, "/in", "/out");
    assert_eq!(ended.outcome, Outcome::Done, "{}", site.failures());
    assert_eq!(ended.progress.failed, 0, "{}", site.failures());
    trees::assert_same(&source, &copy);
    let total = ended.progress.total.unwrap();
    assert_eq!((total.files, total.bytes), (ended.progress.files, ended.progress.bytes));
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
    run.send("\"cancel\"");
    let ended = run.end().unwrap();
    assert_eq!(ended.outcome, Outcome::Cancelled);
    assert!(
        trees::temporary_files(&site.target("out")).is_empty(),
        "{:?}",
        trees::temporary_files(&site.target("out"))
    );
}

#[test]
fn a_clean_order_removes_the_temporary_files_of_a_run_whose_agent_ended() {
    let Some(site) = Site::new(512 << 20) else { return };
    trees::plant(&site.source());
    let mut run = site.start(|order| order.rate = Some(1 << 20), "/", "/out");
    run.until_progress(|progress| progress.bytes > 0);
    // The standard input closes, as it does when the agent is killed.
    assert_eq!(run.abandon(), None);
    assert!(!trees::temporary_files(&site.target("out")).is_empty());
    let ended = site.run(|order| order.task = movement::order::Task::Clean, "/", "/out");
    assert_eq!(ended.outcome, Outcome::Done);
    assert!(trees::temporary_files(&site.target("out")).is_empty());
}

#[test]
fn a_copy_ends_soon_after_its_rate_limit_of_1_byte_is_removed() {
    let Some(site) = Site::new(512 << 20) else { return };
    trees::plant(&site.source());
    let mut run = site.start(|order| order.rate = Some(1), "/", "/out");
    run.send("{\"rate\":null}");
    assert_eq!(run.end().unwrap().outcome, Outcome::Done);
}

#[test]
fn a_copy_to_a_destination_that_is_too_small_stops_before_anything_is_copied() {
    let Some(site) = Site::new(512 << 20) else { return };
    let file = fs::File::create(site.source().join("file")).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 300 << 20).unwrap();
    let taken = fs::File::create(site.target("taken")).unwrap();
    rustix::fs::fallocate(&taken, rustix::fs::FallocateFlags::empty(), 0, 300 << 20).unwrap();
    let Outcome::Stopped(reason) = site.copy("/", "/out", None).outcome else {
        panic!("the destination had enough space")
    };
    assert!(
        reason.contains("314572800 bytes are to be copied")
            && reason.contains("nothing was copied"),
        "{reason}"
    );
    assert!(!site.target("out/file").exists());
}

#[test]
fn a_copy_stops_and_reports_the_missing_bytes_when_the_destination_becomes_full() {
    let Some(site) = Site::new(512 << 20) else { return };
    for number in 0..60 {
        fs::write(site.source().join(format!("{number}")), vec![7; 4 << 20]).unwrap();
    }
    let mut run = site.start(|order| order.rate = Some(8 << 20), "/", "/out");
    run.until_progress(|progress| progress.bytes > 0);
    let rest = fs::File::create(site.target("taken")).unwrap();
    let free = rustix::fs::statvfs(site.target("")).unwrap();
    let filler = free.f_bavail * free.f_frsize - (16 << 20);
    rustix::fs::fallocate(&rest, rustix::fs::FallocateFlags::empty(), 0, filler).unwrap();
    run.send("{\"rate\":null}");
    let Outcome::Stopped(reason) = run.end().unwrap().outcome else {
        panic!("the destination had enough space")
    };
    assert!(
        reason.contains("no space is left") && reason.contains("bytes are missing"),
        "{reason}"
    );
    assert!(trees::temporary_files(&site.target("out")).is_empty());
}
