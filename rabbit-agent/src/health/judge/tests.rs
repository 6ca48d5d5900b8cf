use storage::{
    Observed,
    desired::{AllocationId, NodeName, ObjectUid},
    health::{
        Answer, DriveFacts, FileSystemFacts, GroupFacts, LinkRate, Load, Memory, Pressure,
        Temperature,
    },
    observed::{Drive, DriveWarning},
};

use super::*;
use crate::health::{
    condition::Severity,
    report::{health, of_drive, overall},
};
use api::nnf_node::{NnfResourceHealth, NnfResourceStatus};

/// What checks read of a rabbit, and a clock.
struct Rabbit {
    computes: BTreeMap<u8, NodeName>,
    links: BTreeMap<u8, Link>,
    facts: Facts,
    observed: Observed,
    claimants: BTreeSet<ObjectUid>,
    judged: Judgement,
    now: Instant,
}

fn nqn() -> Nqn {
    "nqn.x:d0".parse().unwrap()
}

fn drive() -> Drive {
    Drive {
        nqn: nqn(),
        serial: "S1".into(),
        model: "M".into(),
        firmware: "F".into(),
        slot: 8,
        label: String::new(),
        capacity: 100,
        allocated: 0,
        max_namespaces: None,
        wear: 3,
        warnings: Vec::new(),
        fault: None,
    }
}

#[test]
fn a_drive_that_cannot_be_asked_keeps_its_name_and_its_slot() {
    let mut rabbit = Rabbit::well();
    rabbit.check();
    let fault = Some("it does not answer".to_owned());
    let (serial, model, firmware) = (String::new(), String::new(), String::new());
    let silent = Drive { serial, model, firmware, slot: 0, capacity: 0, fault, ..drive() };
    let seen = Observed { drives: vec![silent.clone()], ..Observed::default() };
    let [named] = &rabbit.judged.with_missing(seen.clone()).drives[..] else { panic!("one") };
    assert_eq!((&*named.serial, &*named.model, &*named.firmware), ("S1", "M", "F"));
    assert_eq!((named.slot, named.capacity, &named.fault), (8, 0, &silent.fault));
    assert_eq!(Judgement::default().with_missing(seen.clone()), seen, "nothing was known of it");

    let moved = Drive { serial: "S1".into(), model: "M".into(), slot: 3, ..silent };
    let seen = Observed { drives: vec![moved], ..Observed::default() };
    assert_eq!(rabbit.judged.with_missing(seen).drives[0].slot, 3, "who is plugged in is seen");
}

const UP: Link = Link::Up { current: None, most: None };

impl Rabbit {
    fn well() -> Self {
        let smart = Smart { spare: 100, spare_threshold: 10, ..Smart::default() };
        let facts = DriveFacts {
            link: Some(UP),
            errors: Some(LinkErrors::default()),
            temperature: Some(Temperature { now: 40, warning: Some(70), critical: Some(80) }),
            controller: "live".into(),
            read_only: Some(Vec::new()),
        };
        Self {
            computes: BTreeMap::from([(0, "compute-01".parse().unwrap())]),
            links: BTreeMap::from([(0, UP)]),
            facts: Facts {
                drives: BTreeMap::from([(nqn(), facts)]),
                file_systems: Some(Vec::new()),
                groups: Some(Vec::new()),
                ..Facts::default()
            },
            observed: Observed {
                drives: vec![drive()],
                smart: BTreeMap::from([(nqn(), smart)]),
                ..Observed::default()
            },
            claimants: BTreeSet::new(),
            judged: Judgement::default(),
            now: Instant::now(),
        }
    }

    /// Makes a check, and returns the texts of all conditions.
    fn check(&mut self) -> Vec<String> {
        let (links, observed) = (self.links.clone(), self.observed.clone());
        let drives = DrivesSeen::Whole { observed: &observed, unclaimed: &[], lost: &[] };
        self.judge(Some(&links), drives)
    }

    fn judge(&mut self, links: Option<&BTreeMap<u8, Link>>, drives: DrivesSeen<'_>) -> Vec<String> {
        let (facts, claimants) = (Some(&self.facts), Some(&self.claimants));
        let seen = Seen { computes: &self.computes, links, facts, drives, claimants };
        self.judged = judge(&self.judged, &seen, self.now);
        self.judged.conditions.values().map(|condition| condition.text.clone()).collect()
    }

    fn after(&mut self, seconds: u64) -> Vec<String> {
        self.now += Duration::from_secs(seconds);
        self.check()
    }

    fn drive(&mut self) -> &mut DriveFacts {
        self.facts.drives.get_mut(&nqn()).unwrap()
    }

    fn smart(&mut self) -> &mut Smart {
        self.observed.smart.get_mut(&nqn()).unwrap()
    }

    fn warm(&mut self, degrees: i64) {
        self.drive().temperature =
            Some(Temperature { now: degrees, warning: Some(70), critical: Some(80) });
    }
}

#[test]
fn a_drive_behind_a_switch_is_as_warm_as_it_says_itself() {
    let mut rabbit = Rabbit::well();
    rabbit.facts.drives.clear();
    rabbit.smart().temperature = Some(Temperature { now: 71, warning: Some(70), critical: None });
    assert!(rabbit.check()[0].contains("it is at 71 °C, threshold 70 °C"));
}

#[test]
fn a_rabbit_that_is_well_needs_no_look() {
    let mut rabbit = Rabbit::well();
    assert!(rabbit.check().is_empty());
    assert_eq!((rabbit.judged.settles, rabbit.judged.recheck), (None, None));
    assert_eq!(overall(&rabbit.judged), NnfResourceHealth::Ok);
    assert_eq!(health(&rabbit.judged, 100, 0).message, "");
}

#[test]
fn a_link_that_flaps_is_down_until_it_stays_up() {
    let mut rabbit = Rabbit::well();
    rabbit.check();
    rabbit.links.insert(0, Link::Down);
    let reported =
        "compute-01 (index 0): its PCIe link is down: power it on, or check its cable and the port";
    assert_eq!(rabbit.after(1), [reported], "at once");
    rabbit.links.insert(0, UP);
    assert_eq!(rabbit.after(1), [reported]);
    assert_eq!(rabbit.judged.settles, Some(rabbit.now + Duration::from_secs(5)));
    rabbit.links.insert(0, Link::Down);
    assert_eq!(rabbit.after(1), [reported]);
    assert_eq!(
        (rabbit.judged.settles, rabbit.judged.recheck),
        (None, None),
        "its end is announced"
    );
    rabbit.links.insert(0, UP);
    assert_eq!(rabbit.after(1), [reported]);
    assert_eq!(rabbit.after(4), [reported]);
    assert!(rabbit.after(1).is_empty());
    assert_eq!(rabbit.judged.settles, None);
}

#[test]
fn a_burst_of_looks_settles_nothing() {
    let mut rabbit = Rabbit::well();
    rabbit.links.insert(0, Link::Down);
    rabbit.check();
    rabbit.links.insert(0, UP);
    for _ in 0..50 {
        assert_eq!(rabbit.check().len(), 1);
    }
}

#[test]
fn a_link_that_cannot_be_looked_at_stays_what_it_was() {
    let mut rabbit = Rabbit::well();
    rabbit.links.insert(0, Link::Down);
    rabbit.check();
    rabbit.links.insert(0, Link::Unread("slot 7 does not exist".into()));
    let reported = rabbit.after(60);
    assert!(
        reported[0].contains("slot 7 does not exist") && reported[1].contains("is down"),
        "{reported:?}"
    );
    rabbit.links.insert(0, UP);
    rabbit.after(1);
    assert!(rabbit.after(5).is_empty());
}

#[test]
fn a_compute_that_is_configured_no_more_is_nobodys_concern() {
    let mut rabbit = Rabbit::well();
    rabbit.links.insert(0, Link::Down);
    assert_eq!(rabbit.check().len(), 1);
    rabbit.computes.clear();
    assert!(rabbit.check().is_empty());
}

#[test]
fn a_drive_is_hot_until_it_is_well_below_the_threshold() {
    let mut rabbit = Rabbit::well();
    rabbit.warm(69);
    assert!(rabbit.check().is_empty());
    rabbit.warm(70);
    assert_eq!(
        rabbit.check(),
        ["nqn.x:d0: it is at 70 °C, threshold 70 °C: check fans and air flow"]
    );
    assert_eq!(
        of_drive(&rabbit.judged, &nqn()),
        (NnfResourceStatus::Ready, NnfResourceHealth::Warning)
    );
    assert_eq!(rabbit.judged.recheck, Some(rabbit.now + RECHECK), "nobody announces that it cools");
    rabbit.warm(66);
    assert_eq!(rabbit.after(600).len(), 1, "less than five degrees below");
    rabbit.warm(65);
    assert_eq!(rabbit.after(600).len(), 1);
    rabbit.warm(64);
    rabbit.check();
    assert!(rabbit.after(5).is_empty());
    rabbit.warm(69);
    assert!(rabbit.check().is_empty(), "it was well, and is below the threshold");
    rabbit.warm(80);
    assert_eq!(rabbit.check().len(), 2);
    assert_eq!(
        of_drive(&rabbit.judged, &nqn()),
        (NnfResourceStatus::Failed, NnfResourceHealth::Critical)
    );
}

#[test]
fn what_could_not_be_read_of_a_drive_stays_what_it_was() {
    let mut rabbit = Rabbit::well();
    rabbit.check();
    rabbit.warm(75);
    rabbit.drive().errors = Some(LinkErrors { fatal: 1, ..LinkErrors::default() });
    rabbit.drive().link = Some(Link::Down);
    rabbit.drive().controller = "resetting".into();
    rabbit.drive().read_only = Some(vec![1]);
    let reported = rabbit.after(60);
    assert_eq!(reported.len(), 5, "{reported:?}");
    *rabbit.drive() = DriveFacts::default();
    for _ in 0..2 {
        assert_eq!(rabbit.after(3600), reported);
    }
    *rabbit.drive() = Rabbit::well().drive().clone();
    rabbit.check();
    assert_eq!(rabbit.after(3600), [""; 0]);
}

#[test]
fn spare_blocks_come_back_with_two_percent_to_spare() {
    let mut rabbit = Rabbit::well();
    rabbit.smart().spare = 9;
    let reported = ["nqn.x:d0: 9 % of its spare blocks are left, threshold 10 %: replace it"];
    assert_eq!(rabbit.check(), reported);
    assert_eq!(
        of_drive(&rabbit.judged, &nqn()),
        (NnfResourceStatus::Disabled, NnfResourceHealth::Warning)
    );
    rabbit.smart().spare = 11;
    assert_eq!(rabbit.after(600).len(), 1);
    rabbit.smart().spare = 12;
    rabbit.check();
    assert!(rabbit.after(5).is_empty());
}

#[test]
fn what_a_drive_warns_of_goes_by_itself_and_maps_to_the_states_of_the_sites() {
    for (warning, status, health) in [
        (DriveWarning::SpareLow, NnfResourceStatus::Disabled, NnfResourceHealth::Warning),
        (DriveWarning::ReadOnly, NnfResourceStatus::Disabled, NnfResourceHealth::Warning),
        (DriveWarning::Temperature, NnfResourceStatus::Failed, NnfResourceHealth::Critical),
        (DriveWarning::Degraded, NnfResourceStatus::Failed, NnfResourceHealth::Critical),
        (DriveWarning::BackupFailed, NnfResourceStatus::Failed, NnfResourceHealth::Critical),
    ] {
        let mut rabbit = Rabbit::well();
        rabbit.observed.drives[0].warnings = vec![warning];
        rabbit.check();
        assert_eq!(of_drive(&rabbit.judged, &nqn()), (status, health));
        assert_eq!(overall(&rabbit.judged), NnfResourceHealth::Warning, "others serve on");
        rabbit.observed.drives[0].warnings.clear();
        rabbit.after(60);
        rabbit.after(5);
        assert_eq!(
            of_drive(&rabbit.judged, &nqn()),
            (NnfResourceStatus::Ready, NnfResourceHealth::Ok)
        );
    }
}

#[test]
fn a_drive_that_does_not_answer_keeps_what_it_warned_of() {
    let mut rabbit = Rabbit::well();
    rabbit.smart().spare = 1;
    rabbit.check();
    rabbit.observed.drives[0].fault = Some("it is not plugged in".into());
    rabbit.observed.smart.clear();
    rabbit.facts.drives.clear();
    let reported = rabbit.after(3600);
    assert_eq!(reported.len(), 2, "{reported:?}");
    assert_eq!(
        of_drive(&rabbit.judged, &nqn()),
        (NnfResourceStatus::Offline, NnfResourceHealth::Critical)
    );
    rabbit.observed.drives.clear();
    assert!(!rabbit.check().iter().any(|text| text.contains("nqn.x:d0")), "one that is no more");
}

#[test]
fn only_what_is_counted_anew_is_told_and_for_an_hour() {
    let mut rabbit = Rabbit::well();
    rabbit.smart().media_errors = 3;
    rabbit.smart().unsafe_shutdowns = 12;
    rabbit.drive().errors = Some(LinkErrors { correctable: 5000, nonfatal: 1, fatal: 1 });
    assert!(rabbit.check().is_empty(), "what was before this agent");
    rabbit.smart().media_errors = 5;
    let errors = LinkErrors { correctable: 5000, nonfatal: 1, fatal: 2 };
    rabbit.drive().errors = Some(errors);
    let reported = rabbit.after(60);
    assert!(reported[0].contains("1 fatal, 0 nonfatal and 0 correctable"), "{reported:?}");
    assert!(reported[1].contains("5 media errors, 3 at the look before"), "{reported:?}");
    assert_eq!(rabbit.after(60).len(), 2);
    assert_eq!(rabbit.after(3599).len(), 2);
    assert!(rabbit.after(1).is_empty());
    rabbit.drive().errors = Some(LinkErrors { correctable: 5099, ..errors });
    assert!(rabbit.check().is_empty(), "single repaired errors are no news");
    rabbit.drive().errors = Some(LinkErrors::default());
    assert!(rabbit.check().is_empty(), "counted from zero since it was plugged in anew");
}

#[test]
fn what_would_settle_and_cannot_be_looked_at_is_looked_at_once_a_minute() {
    let mut rabbit = Rabbit::well();
    rabbit.check();
    rabbit.smart().media_errors = 3;
    rabbit.after(60);
    rabbit.after(60);
    assert_eq!(rabbit.judged.settles, Some(rabbit.now + Duration::from_secs(3600)));
    let well = rabbit.observed.clone();
    rabbit.observed.drives[0].fault = Some("it does not answer".into());
    rabbit.observed.smart.clear();
    assert_eq!(rabbit.after(3600).len(), 2, "it stays what it was");
    assert_eq!(rabbit.judged.settles, None, "a look at once would tell no more");
    rabbit.observed = well;
    let reported = rabbit.after(60);
    assert!(
        !reported.iter().any(|text| text.contains("media errors")),
        "clean for an hour: {reported:?}"
    );
}

#[test]
fn a_link_that_comes_up_and_cannot_be_looked_at_is_looked_at_once_a_minute() {
    let mut rabbit = Rabbit::well();
    rabbit.links.insert(0, Link::Down);
    rabbit.check();
    rabbit.links.insert(0, UP);
    rabbit.check();
    rabbit.links.insert(0, Link::Unread("slot 7 does not exist".into()));
    for _ in 0..3 {
        rabbit.after(60);
        let judged = &rabbit.judged;
        assert_eq!((judged.settles, judged.recheck), (None, Some(rabbit.now + RECHECK)));
    }
}

#[test]
fn a_look_at_the_links_alone_calls_for_no_second_look_at_the_drives() {
    let mut rabbit = Rabbit::well();
    rabbit.observed.drives[0].warnings = vec![DriveWarning::SpareLow];
    rabbit.check();
    rabbit.observed.drives[0].warnings.clear();
    rabbit.check();
    assert_eq!(rabbit.judged.settles, Some(rabbit.now + Duration::from_secs(5)));
    rabbit.now += Duration::from_secs(5);
    let links = rabbit.links.clone();
    assert_eq!(rabbit.judge(Some(&links), DrivesSeen::NotAsked).len(), 1);
    let judged = &rabbit.judged;
    assert_eq!((judged.settles, judged.recheck), (None, Some(rabbit.now + RECHECK)));
    assert!(rabbit.check().is_empty(), "the look at the drives that follows tells that it is over");
    assert_eq!((rabbit.judged.settles, rabbit.judged.recheck), (None, None));
}

#[test]
fn a_link_below_what_both_ends_can_is_told_with_both() {
    let mut rabbit = Rabbit::well();
    let rate = |transfers, lanes| Some(LinkRate { transfers, lanes });
    let slow = Link::Up { current: rate(8000, 2), most: rate(16_000, 4) };
    rabbit.drive().link = Some(slow.clone());
    rabbit.links.insert(0, slow);
    let reported = rabbit.check();
    assert_eq!(reported.len(), 2);
    assert!(
        reported
            .iter()
            .all(|text| text.contains("runs at 8.0 GT/s x2, and both ends can 16.0 GT/s x4")),
        "{reported:?}"
    );
    let full = Link::Up { current: rate(16_000, 4), most: rate(16_000, 4) };
    rabbit.drive().link = Some(full.clone());
    rabbit.links.insert(0, full);
    rabbit.check();
    assert!(rabbit.after(5).is_empty());
}

fn mounted(
    asked_read_only: bool,
    is_read_only: bool,
    answer: Answer,
) -> Option<Vec<FileSystemFacts>> {
    let device = DeviceNumber { major: 7, minor: 2 };
    let (target, kind) = ("/mnt/nnf/a".into(), "xfs".into());
    Some(vec![FileSystemFacts { target, device, kind, asked_read_only, is_read_only, answer }])
}

#[test]
fn a_file_system_that_went_read_only_is_told_from_one_that_was_mounted_so() {
    let mut rabbit = Rabbit::well();
    rabbit.facts.file_systems = mounted(true, true, Answer::Well);
    assert!(rabbit.check().is_empty());
    rabbit.facts.file_systems = mounted(false, true, Answer::Well);
    assert!(rabbit.check()[0].starts_with("/mnt/nnf/a: xfs went read-only"), "by the kernel");
    rabbit.facts.file_systems = Some(Vec::new());
    assert!(rabbit.check().is_empty(), "unmounted");
    rabbit.facts.file_systems = mounted(false, false, Answer::Well);
    assert!(rabbit.check().is_empty());
    rabbit.facts.file_systems = mounted(true, true, Answer::Well);
    for _ in 0..2 {
        assert!(rabbit.after(60)[0].contains("went read-only"), "by somebody's remount");
    }
    rabbit.facts.file_systems = None;
    assert_eq!(rabbit.after(60).len(), 1, "the mount table could not be read");
}

#[test]
fn a_file_system_that_was_shut_down_is_critical_for_itself() {
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
fn memory_pressure_and_load_have_room_between_entering_and_leaving() {
    let mut rabbit = Rabbit::well();
    let mut at = |available: u64, memory, hundredths| {
        rabbit.facts.memory = Some(Memory { total: 1000 << 20, available: available << 20 });
        rabbit.facts.pressure = Some(Pressure { memory });
        rabbit.facts.load = Some(Load { hundredths, processors: 2 });
        rabbit.after(60);
        rabbit.after(5)
    };
    assert!(at(51, 999, 799).is_empty());
    let reported = at(49, 1000, 800);
    assert_eq!(reported.len(), 3);
    assert!(
        reported[0].starts_with("memory: 49 MiB of 1000 MiB are available, less than 5 %"),
        "{reported:?}"
    );
    assert!(
        reported[1].contains("in 10 % of the last minute") && reported[2].contains("8 tasks"),
        "{reported:?}"
    );
    assert_eq!(at(79, 500, 600).len(), 3);
    assert!(at(80, 499, 599).is_empty());
}

#[test]
fn a_volume_group_that_is_not_whole_is_told_by_its_volumes() {
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
    assert_eq!(rabbit.after(60).len(), 2, "nobody looked");
}

#[test]
fn drives_that_could_not_be_looked_at_are_critical_and_keep_what_was_known() {
    let mut rabbit = Rabbit::well();
    rabbit.smart().spare = 1;
    rabbit.check();
    let reported = rabbit.judge(None, DrivesSeen::Failed);
    assert_eq!(reported.len(), 2, "{reported:?}");
    assert_eq!(overall(&rabbit.judged), NnfResourceHealth::Critical);
    let message = health(&rabbit.judged, 0, 0).message;
    assert!(message.starts_with("the drives cannot be queried"), "the worst first: {message}");
    rabbit.check();
    rabbit.after(5);
    assert_eq!(overall(&rabbit.judged), NnfResourceHealth::Warning);
}

#[test]
fn a_rabbit_without_drives_is_critical() {
    let mut rabbit = Rabbit::well();
    rabbit.observed = Observed::default();
    assert!(rabbit.check()[0].starts_with("no drive is usable"));
    assert_eq!(overall(&rabbit.judged), NnfResourceHealth::Critical);
}

#[test]
fn unclaimed_namespaces_are_a_warning_with_their_names() {
    let mut rabbit = Rabbit::well();
    let many: Vec<String> = (0..4096).map(|nsid| format!("nqn.x:{nsid}")).collect();
    let observed = rabbit.observed.clone();
    let reported =
        rabbit.judge(None, DrivesSeen::Whole { observed: &observed, unclaimed: &many, lost: &[] });
    assert!(reported[0].ends_with("nqn.x:7 and 4088 more"), "{reported:?}");
    assert_eq!(overall(&rabbit.judged), NnfResourceHealth::Warning);
}

#[test]
fn a_namespace_that_two_looks_miss_is_lost_and_looked_for_until_it_is_back() {
    let mut rabbit = Rabbit::well();
    let observed = rabbit.observed.clone();
    let gone = ["nqn.x:d0:1 of NnfNodeBlockStorage job".to_owned()];
    let mut look = |lost: &[String]| {
        rabbit.now += Duration::from_secs(10);
        let reported =
            rabbit.judge(None, DrivesSeen::Whole { observed: &observed, unclaimed: &[], lost });
        (reported, rabbit.judged.recheck == Some(rabbit.now + RECHECK))
    };
    assert_eq!(look(&[]), (vec![], false));
    assert_eq!(look(&gone), (vec![], true), "its object may have gone while one looked");
    let (reported, rechecked) = look(&gone);
    assert!(reported[0].starts_with("1 namespaces are on no drive") && rechecked, "{reported:?}");
    assert!(reported[0].ends_with("nqn.x:d0:1 of NnfNodeBlockStorage job"), "{reported:?}");
    look(&[]);
    assert_eq!(look(&[]), (vec![], false));
    assert_eq!(look(&gone), (vec![], true), "it was there in between");
}

#[test]
fn a_drive_that_is_pulled_is_missed_until_it_is_back() {
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
fn a_volume_group_that_no_object_claims_is_told_with_how_to_remove_it() {
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
    rabbit.claimants.insert(owner);
    rabbit.check();
    assert_eq!(rabbit.after(60), [""; 0], "it is claimed");
    rabbit.claimants.clear();
    rabbit.facts.groups = Some(vec![GroupFacts { allocation: None, ..group }]);
    assert_eq!(rabbit.check(), [""; 0], "nobody knows whose it is");
}
