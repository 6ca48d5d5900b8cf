//! Tests of file systems, volume groups and namespaces.

use super::*;

fn mounted(
    is_mounted_read_only: bool,
    is_read_only: bool,
    answer: Answer,
) -> Option<Vec<FileSystemFacts>> {
    let device = DeviceNumber { major: 7, minor: 2 };
    let (target, kind) = ("/mnt/nnf/a".into(), "xfs".into());
    Some(vec![FileSystemFacts { target, device, kind, is_mounted_read_only, is_read_only, answer }])
}

#[test]
fn only_a_file_system_that_became_read_only_is_reported() {
    let mut rabbit = Rabbit::well();
    rabbit.facts.file_systems = mounted(true, true, Answer::Well);
    assert!(rabbit.check().is_empty());
    rabbit.facts.file_systems = mounted(false, true, Answer::Well);
    assert!(
        rabbit.check()[0].starts_with("/mnt/nnf/a: xfs went read-only"),
        "the kernel made it read-only"
    );
    rabbit.facts.file_systems = Some(Vec::new());
    assert!(rabbit.check().is_empty(), "the file system was unmounted");
    rabbit.facts.file_systems = mounted(false, false, Answer::Well);
    assert!(rabbit.check().is_empty());
    rabbit.facts.file_systems = mounted(true, true, Answer::Well);
    for _ in 0..2 {
        assert!(rabbit.after(60)[0].contains("went read-only"), "a remount made it read-only");
    }
    rabbit.facts.file_systems = None;
    assert_eq!(rabbit.after(60).len(), 1, "the mount table could not be read");
}

#[test]
fn a_file_system_that_was_shut_down_is_critical_and_the_health_of_the_rabbit_is_a_warning() {
    let mut rabbit = Rabbit::well();
    rabbit.facts.file_systems =
        mounted(false, false, Answer::ShutDown("Input/output error".into()));
    let reported = rabbit.check();
    assert!(
        reported[0]
            .starts_with("/mnt/nnf/a: xfs was shut down after an error (Input/output error)"),
        "{reported:?}"
    );
    assert_eq!(rabbit.judged.conditions.values().next().unwrap().severity, Severity::Critical);
    assert_eq!(overall(&rabbit.judged), NnfResourceHealth::Warning);
    rabbit.facts.file_systems = mounted(false, false, Answer::Silent("it hangs".into()));
    assert!(rabbit.check().iter().any(|text| text.contains("does not answer: it hangs")));
}

#[test]
fn an_incomplete_volume_group_is_reported_with_its_volumes() {
    let mut rabbit = Rabbit::well();
    let unwell = vec![("lv-0".to_owned(), "partial".to_owned())];
    let lost = vec!["nqn.x:d0:1: it is not plugged in".to_owned()];
    let group =
        GroupFacts { name: "vg0".into(), missing: 1, lost, unwell, ..GroupFacts::default() };
    rabbit.facts.groups = Some(vec![group]);
    let reported = rabbit.check();
    assert!(
        reported[0].contains("1 physical volumes are missing (nqn.x:d0:1: it is not plugged in)")
            && reported[1].contains("lv-0 is partial"),
        "{reported:?}"
    );
    rabbit.facts.groups = None;
    assert_eq!(rabbit.after(60).len(), 2, "the groups were not read");
}

#[test]
fn unclaimed_namespaces_are_a_warning_with_their_names() {
    let mut rabbit = Rabbit::well();
    let many: Vec<String> = (0..4096).map(|nsid| format!("nqn.x:{nsid}")).collect();
    let observed = rabbit.observed.clone();
    let reported = rabbit
        .judge(None, DrivesRead::Complete { observed: &observed, unclaimed: &many, lost: &[] });
    assert!(reported[0].ends_with("nqn.x:7 and 4088 more"), "{reported:?}");
    assert_eq!(overall(&rabbit.judged), NnfResourceHealth::Warning);
}

#[test]
fn a_namespace_missing_in_two_checks_is_lost_until_it_is_back() {
    let mut rabbit = Rabbit::well();
    let observed = rabbit.observed.clone();
    let gone = ["nqn.x:d0:1 of NnfNodeBlockStorage job".to_owned()];
    let mut check = |lost: &[String]| {
        rabbit.now += Duration::from_secs(10);
        let reported =
            rabbit.judge(None, DrivesRead::Complete { observed: &observed, unclaimed: &[], lost });
        (reported, rabbit.judged.recheck == Some(rabbit.now + RECHECK))
    };
    assert_eq!(check(&[]), (vec![], false));
    assert_eq!(check(&gone), (vec![], true), "the object may have been deleted during the check");
    let (reported, rechecked) = check(&gone);
    assert!(reported[0].starts_with("1 namespaces are on no drive") && rechecked, "{reported:?}");
    assert!(reported[0].ends_with("nqn.x:d0:1 of NnfNodeBlockStorage job"), "{reported:?}");
    check(&[]);
    assert_eq!(check(&[]), (vec![], false));
    assert_eq!(check(&gone), (vec![], true), "a check in between found the namespace");
}

#[test]
fn a_pulled_drive_is_offline_until_it_is_back() {
    let mut rabbit = Rabbit::well();
    rabbit.check();
    let well = rabbit.observed.clone();
    rabbit.observed = rabbit.judged.with_missing(Observed::default());
    assert_eq!(rabbit.observed.drives[0].serial, "S1");
    let reported = rabbit.check();
    assert!(
        reported.iter().any(|text| text.starts_with("nqn.x:d0: it is not there any more")),
        "{reported:?}"
    );
    assert_eq!(of_drive(&rabbit.judged, &nqn()).0, NnfResourceStatus::Offline);
    rabbit.observed = rabbit.judged.with_missing(well.clone());
    assert_eq!(rabbit.observed, well);
    rabbit.after(60);
    assert!(rabbit.after(5).is_empty());
}

#[test]
fn an_unclaimed_volume_group_is_reported_with_the_commands_to_remove_it() {
    let owner: ObjectUid = "a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11".parse().unwrap();
    let group = GroupFacts {
        name: format!("{owner}_0"),
        allocation: Some(AllocationId { owner, index: 0 }),
        devices: vec!["/dev/nvme0n1".into(), "/dev/nvme1n1".into()],
        is_shared: true,
        ..GroupFacts::default()
    };
    let mut rabbit = Rabbit::well();
    rabbit.facts.groups = Some(vec![group.clone()]);
    let on = "--devices /dev/nvme0n1,/dev/nvme1n1";
    let reported = rabbit.check();
    let commands =
        format!("vgchange --lock-start {on} {owner}_0 && vgremove --force --yes {on} {owner}_0");
    assert!(reported[0].contains(&commands), "{reported:?}");
    rabbit.facts.groups = Some(vec![GroupFacts { is_shared: false, ..group.clone() }]);
    assert!(!rabbit.check()[0].contains("lock-start"));
    rabbit.block_storage_uids.insert(owner);
    rabbit.check();
    assert_eq!(rabbit.after(60), [""; 0], "an object claims the group");
    rabbit.block_storage_uids.clear();
    rabbit.facts.groups = Some(vec![GroupFacts { allocation: None, ..group }]);
    assert_eq!(rabbit.check(), [""; 0], "the owner of the group is unknown");
}
