use storage::desired::AllowedRoots;

use super::*;

fn claimant(created: &str, uid: &str) -> Claimant {
    let name = format!("job-{uid}");
    let (created, uid, namespace) = (created.into(), uid.into(), "compute-01".into());
    Claimant { not_mounted_yet: true, created, uid, namespace, name }
}

fn paths(paths: &[&str]) -> Vec<MountPoint> {
    let roots = AllowedRoots::new(["/mnt/nnf".into()]).unwrap();
    paths.iter().map(|path| MountPoint::parse(path, &roots).unwrap()).collect()
}

#[test]
fn the_first_created_has_the_path_in_whatever_order_the_objects_come() {
    let (old, new) = (claimant("2026-01-01T00:00:00Z", "z"), claimant("2026-01-01T00:00:01Z", "a"));
    let mut claims = Claims::default();
    assert!(claims.set(new, Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new()).is_empty());
    assert_eq!(claims.conflict("a"), None);
    assert_eq!(claims.set(old, Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new()), ["a"]);
    let conflict = claims.conflict("a").unwrap();
    assert_eq!((conflict.by.uid.as_str(), conflict.leaving), ("z", false));
    assert_eq!(
        conflict.to_string(),
        "mountPath /mnt/nnf/x belongs to ClientMount compute-01/job-z: use another path, or delete that one first"
    );
    assert_eq!(claims.conflict("z"), None);
}

#[test]
fn a_path_is_free_once_its_object_is_unmounted() {
    let mut claims = Claims::default();
    claims.set(claimant("1", "a"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    claims.set(claimant("2", "b"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    assert_eq!(
        claims.set(claimant("1", "a"), Goal::Unmounted, paths(&["/mnt/nnf/x"]), Vec::new()),
        ["b"]
    );
    assert!(claims.conflict("b").unwrap().leaving);
    assert_eq!(claims.release("a"), ["b"]);
    assert_eq!(claims.conflict("b"), None);
}

#[test]
fn a_younger_object_that_is_mounted_keeps_the_path_until_it_is_unmounted() {
    let mut claims = Claims::default();
    claims.set(claimant("2", "b"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    claims.set_mounted("b");
    claims.set(claimant("2", "b"), Goal::Unmounted, paths(&["/mnt/nnf/x"]), Vec::new());
    assert!(!claims.owns_nothing("b"), "it is mounted");
    claims.set(claimant("1", "a"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    assert!(claims.conflict("a").unwrap().leaving);
    assert_eq!(claims.conflict("b"), None, "unmounting is never contested");
}

#[test]
fn a_mounted_object_keeps_its_path_though_an_older_one_asks_for_it() {
    let mut claims = Claims::default();
    claims.set(claimant("2", "b"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    claims.set_mounted("b");
    assert!(
        claims
            .set(claimant("1", "a"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new())
            .is_empty()
    );
    assert_eq!(claims.conflict("b"), None);
    assert!(claims.conflict("a").is_some_and(|conflict| !conflict.leaving));
}

#[test]
fn an_object_mounted_too_late_does_not_get_its_path_back() {
    let mut claims = Claims::default();
    claims.set(claimant("1", "b"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    assert_eq!(
        claims.set(claimant("1", "a"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new()),
        ["b"]
    );
    claims.set_mounted("b");
    assert_eq!(claims.conflict("a"), None);
    assert!(claims.conflict("b").is_some());
}

#[test]
fn an_object_that_never_had_its_path_unmounts_nothing() {
    let mut claims = Claims::default();
    claims.set(claimant("1", "a"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    claims.set_mounted("a");
    claims.set(claimant("2", "b"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    claims.set(claimant("2", "b"), Goal::Unmounted, paths(&["/mnt/nnf/x"]), Vec::new());
    assert!(claims.owns_nothing("b"));
    assert_eq!(claims.conflict("a"), None, "the mounted object waits for nobody");
    claims.set(claimant("1", "a"), Goal::Unmounted, paths(&["/mnt/nnf/x"]), Vec::new());
    assert!(!claims.owns_nothing("a"));
}

#[test]
fn a_path_within_another_is_contested_and_one_with_a_similar_name_is_not() {
    let mut claims = Claims::default();
    claims.set(claimant("1", "a"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    claims.set(claimant("2", "b"), Goal::Mounted, paths(&["/mnt/nnf/x/y"]), Vec::new());
    claims.set(claimant("3", "c"), Goal::Mounted, paths(&["/mnt/nnf/xy"]), Vec::new());
    assert!(claims.conflict("b").unwrap().to_string().contains("which mounts at /mnt/nnf/x"));
    assert_eq!(claims.conflict("c"), None);
}

#[test]
fn objects_are_woken_only_when_their_conflicts_change() {
    let mut claims = Claims::default();
    claims.set(claimant("1", "a"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    claims.set(claimant("2", "b"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new());
    assert!(
        claims
            .set(claimant("1", "a"), Goal::Mounted, paths(&["/mnt/nnf/x"]), Vec::new())
            .is_empty()
    );
    assert!(
        claims
            .set(claimant("3", "c"), Goal::Mounted, paths(&["/mnt/nnf/z"]), Vec::new())
            .is_empty()
    );
    assert!(claims.release("b").is_empty());
}
