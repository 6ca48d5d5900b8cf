use storage::desired::AllowedRoots;

use super::*;

fn requester(created: &str, uid: &str) -> Requester {
    let name = format!("job-{uid}");
    let (created, uid, namespace) = (created.into(), uid.into(), "compute-01".into());
    Requester { not_mounted_yet: true, created, uid, namespace, name }
}

fn paths(paths: &[&str]) -> Vec<MountPoint> {
    let roots = AllowedRoots::new(["/mnt/nnf".into()]).unwrap();
    paths.iter().map(|path| MountPoint::parse(path, &roots).unwrap()).collect()
}

#[test]
fn the_object_created_first_gets_the_path_even_if_it_arrives_later() {
    let (old, new) =
        (requester("2026-01-01T00:00:00Z", "z"), requester("2026-01-01T00:00:01Z", "a"));
    let mut targets = TargetsInUse::default();
    assert!(targets.set(new, Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new()).is_empty());
    assert_eq!(targets.conflict("a"), None);
    assert_eq!(targets.set(old, Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new()), ["a"]);
    let conflict = targets.conflict("a").unwrap();
    assert_eq!((conflict.owner.uid.as_str(), conflict.leaving), ("z", false));
    assert_eq!(
        conflict.to_string(),
        "mountPath /mnt/nnf/x belongs to ClientMount compute-01/job-z: use another path, or delete that ClientMount first"
    );
    assert_eq!(targets.conflict("z"), None);
}

#[test]
fn the_conflict_of_a_waiting_object_ends_once_the_owner_of_the_path_is_released() {
    let mut targets = TargetsInUse::default();
    targets.set(requester("1", "a"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    targets.set(requester("2", "b"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    assert_eq!(
        targets.set(requester("1", "a"), Goal::Unmounted, paths(&["/mnt/nnf/x"]), Vec::new()),
        ["b"]
    );
    assert!(targets.conflict("b").unwrap().leaving);
    assert_eq!(targets.release("a"), ["b"]);
    assert_eq!(targets.conflict("b"), None);
}

#[test]
fn a_younger_object_that_is_mounted_keeps_the_path_until_it_is_unmounted() {
    let mut targets = TargetsInUse::default();
    targets.set(requester("2", "b"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    targets.set_mounted("b");
    targets.set(requester("2", "b"), Goal::Unmounted, paths(&["/mnt/nnf/x"]), Vec::new());
    assert!(!targets.owns_nothing("b"), "object b is mounted");
    targets.set(requester("1", "a"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    assert!(targets.conflict("a").unwrap().leaving);
    assert_eq!(targets.conflict("b"), None, "an object that is being unmounted has no conflict");
}

#[test]
fn a_mounted_object_keeps_its_path_though_an_older_object_requests_it() {
    let mut targets = TargetsInUse::default();
    targets.set(requester("2", "b"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    targets.set_mounted("b");
    assert!(
        targets
            .set(requester("1", "a"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new())
            .is_empty()
    );
    assert_eq!(targets.conflict("b"), None);
    assert!(targets.conflict("a").is_some_and(|conflict| !conflict.leaving));
}

#[test]
fn an_object_that_lost_its_path_to_an_older_object_during_its_mount_does_not_get_the_path_back() {
    let mut targets = TargetsInUse::default();
    targets.set(requester("1", "b"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    assert_eq!(
        targets.set(requester("1", "a"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new()),
        ["b"]
    );
    targets.set_mounted("b");
    assert_eq!(targets.conflict("a"), None);
    assert!(targets.conflict("b").is_some());
}

#[test]
fn an_object_whose_path_belongs_to_a_mounted_object_has_nothing_to_unmount() {
    let mut targets = TargetsInUse::default();
    targets.set(requester("1", "a"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    targets.set_mounted("a");
    targets.set(requester("2", "b"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    targets.set(requester("2", "b"), Goal::Unmounted, paths(&["/mnt/nnf/x"]), Vec::new());
    assert!(targets.owns_nothing("b"));
    assert_eq!(targets.conflict("a"), None, "the mounted object has no conflict");
    targets.set(requester("1", "a"), Goal::Unmounted, paths(&["/mnt/nnf/x"]), Vec::new());
    assert!(!targets.owns_nothing("a"));
}

#[test]
fn a_path_within_another_path_is_a_conflict_and_a_path_with_the_same_prefix_is_not() {
    let mut targets = TargetsInUse::default();
    targets.set(requester("1", "a"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    targets.set(requester("2", "b"), Goal::Mounted, paths(&["/mnt/nnf/x/y"]), Vec::new());
    targets.set(requester("3", "c"), Goal::Mounted, paths(&["/mnt/nnf/xy"]), Vec::new());
    assert!(targets.conflict("b").unwrap().to_string().contains("which mounts at /mnt/nnf/x"));
    assert_eq!(targets.conflict("c"), None);
}

#[test]
fn objects_are_woken_only_when_their_conflicts_change() {
    let mut targets = TargetsInUse::default();
    targets.set(requester("1", "a"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    targets.set(requester("2", "b"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    assert!(
        targets
            .set(requester("1", "a"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new())
            .is_empty()
    );
    assert!(
        targets
            .set(requester("3", "c"), Goal::Mounted, paths(&["/mnt/nnf/z"]), Vec::new())
            .is_empty()
    );
    assert!(targets.release("b").is_empty());
}
