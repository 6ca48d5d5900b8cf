//! Several runs that copy one source together, as several rabbits do.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
};

use movement::{
    order::Share,
    report::{Ended, Outcome},
};

use crate::{
    site::{PREFIX, Site},
    trees,
};

const COUNT: u16 = 3;

/// Copies with one run for each share, all at the same time.
fn copy_in_shares(site: &Site, source: &str, destination: &str) -> Vec<Ended> {
    let start = |index| {
        let state = site.new_state();
        site.start(
            |order| {
                order.share = Some(Share { index, count: COUNT });
                order.prefix = format!("{PREFIX}{index}");
                order.state = state;
            },
            source,
            destination,
        )
    };
    let runs: Vec<_> = (0..COUNT).map(start).collect();
    let ended: Vec<Ended> = runs.into_iter().map(|run| run.end().unwrap()).collect();
    for ended in &ended {
        assert_eq!((&ended.outcome, ended.progress.failed), (&Outcome::Done, 0));
    }
    ended
}

/// Creates a directory with 20 directories and 20 files; its own mode is `mode`.
fn plant(site: &Site, mode: u32) {
    let tree = site.source().join("tree");
    for number in 0..20 {
        let directory = tree.join(format!("directory {number}/deep"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("file"), format!("{number}")).unwrap();
        fs::write(tree.join(format!("file {number}")), vec![7; number * 1000]).unwrap();
    }
    trees::own(&tree);
    fs::set_permissions(&tree, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn shares_copy_each_entry_of_the_source_once() {
    let Some(site) = Site::new(512 << 20) else { return };
    plant(&site, 0o2750);
    for (source, destination, copy) in [("/tree", "/a", "a/tree"), ("/tree/", "/b", "b")] {
        let ended = copy_in_shares(&site, source, destination);
        trees::assert_same(&site.source().join("tree"), &site.target(copy));
        let files = |ended: &Ended| (ended.progress.files, ended.progress.total.unwrap().files);
        assert!(ended.iter().all(|ended| files(ended).0 == files(ended).1), "{ended:?}");
        assert_eq!(ended.iter().map(|ended| files(ended).0).sum::<u64>(), 40);
        assert!(ended.iter().all(|ended| ended.progress.files > 0), "a share is empty: {ended:?}");
    }
}

#[test]
fn a_directory_that_shares_copy_keeps_its_owner_s_right_to_write() {
    let Some(site) = Site::new(512 << 20) else { return };
    plant(&site, 0o555);
    copy_in_shares(&site, "/tree", "/out");
    let mode = fs::metadata(site.target("out/tree")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
    assert_eq!(fs::read_dir(site.target("out/tree")).unwrap().count(), 40);
}

#[test]
fn the_first_share_copies_a_source_that_is_a_file() {
    let Some(site) = Site::new(512 << 20) else { return };
    plant(&site, 0o755);
    let ended = copy_in_shares(&site, "/tree/file 3", "/out/copy");
    let files: Vec<u64> = ended.iter().map(|ended| ended.progress.files).collect();
    assert_eq!(files, [1, 0, 0]);
    assert_eq!(fs::read(site.target("out/copy")).unwrap().len(), 3000);
}
