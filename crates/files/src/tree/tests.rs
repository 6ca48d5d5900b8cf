use std::{fs, os::unix::fs::symlink};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::stat::{Mode, mkdirat},
};

use super::*;

/// Creates directories nested `levels` deep, and a file in the innermost directory.
fn deep(at: &Path, levels: usize) {
    fs::create_dir(at).unwrap();
    let mut here = open(AT_FDCWD, at.as_os_str(), ResolveFlag::empty()).unwrap();
    for _ in 0..levels {
        mkdirat(&here, "d", Mode::S_IRWXU).unwrap();
        here = open(&here, OsStr::new("d"), ResolveFlag::empty()).unwrap();
    }
    let flags = OFlag::O_CREAT | OFlag::O_WRONLY;
    nix::fcntl::openat(&here, "file", flags, Mode::S_IRWXU).unwrap();
}

#[test]
fn remove_removes_a_tree_of_thirty_thousand_levels() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    deep(&tree, 30_000);
    remove_tree(&tree).unwrap();
    assert!(fs::symlink_metadata(&tree).is_err());
}

#[test]
fn remove_removes_a_directory_with_more_entries_than_are_read_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    for name in 0..AT_ONCE + 10 {
        fs::create_dir_all(tree.join(format!("{name}/in"))).unwrap();
    }
    remove_tree(&tree).unwrap();
    assert!(!tree.exists());
}

/// `remove` moves nested directories to the root of the tree, and calls them `.0.removed`, `.1.removed` and so on. In
/// this test the tree has such names already.
#[test]
fn remove_succeeds_when_the_tree_already_uses_the_names_for_moved_directories() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    fs::create_dir_all(tree.join("a/b/c")).unwrap();
    fs::create_dir_all(tree.join(".0.removed/x")).unwrap();
    fs::write(tree.join(".1.removed"), "").unwrap();
    fs::create_dir_all(tree.join("a/.0.removed/y/.1.removed")).unwrap();
    remove_tree(&tree).unwrap();
    assert!(!tree.exists());
}

#[test]
fn remove_does_not_follow_links_out_of_the_tree() {
    let directory = tempfile::tempdir().unwrap();
    let (tree, outside) = (directory.path().join("tree"), directory.path().join("outside"));
    fs::create_dir_all(outside.join("in")).unwrap();
    fs::create_dir_all(tree.join("a")).unwrap();
    symlink(&outside, tree.join("a/link")).unwrap();
    symlink(&outside, tree.join("link")).unwrap();
    remove_tree(&tree).unwrap();
    assert!(!tree.exists() && outside.join("in").exists());
    symlink(&outside, &tree).unwrap();
    remove_tree(&tree).unwrap();
    assert!(fs::symlink_metadata(&tree).is_err() && outside.join("in").exists());
}

#[test]
fn remove_fails_with_not_found_for_a_missing_path() {
    let directory = tempfile::tempdir().unwrap();
    let error = remove_tree(&directory.path().join("none")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

/// A mount in the tree stays with its contents, and all other entries are removed.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test needs a mount in the tree")]
fn remove_returns_an_error_with_the_first_unremovable_entry_and_removes_all_others() {
    if !gate::root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (tree, outside) = (directory.path().join("tree"), directory.path().join("outside"));
    fs::create_dir_all(outside.join("in")).unwrap();
    fs::create_dir_all(tree.join("a/mounted")).unwrap();
    fs::create_dir_all(tree.join("z/other")).unwrap();
    let none = None::<&str>;
    mount(Some(&outside), &tree.join("a/mounted"), none, MsFlags::MS_BIND, none).unwrap();
    let error = remove_tree(&tree).unwrap_err();
    let left = fs::read_dir(&tree).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.collect();
    umount2(&tree.join("a/mounted"), MntFlags::MNT_DETACH).unwrap();
    assert_eq!(
        (error.kind(), &*error.to_string()),
        (io::ErrorKind::ResourceBusy, "entry \"a\" of the directory cannot be removed")
    );
    assert_eq!(left, ["a"]);
    assert!(outside.join("in").exists());
    remove_tree(&tree).unwrap();
}
