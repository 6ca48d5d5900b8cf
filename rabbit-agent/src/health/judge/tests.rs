mod links;
mod mounted;

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

/// A clock, and the facts that checks read about a rabbit.
struct Rabbit {
    computes: BTreeMap<u8, NodeName>,
    links: BTreeMap<u8, Link>,
    facts: Facts,
    observed: Observed,
    block_storage_uids: BTreeSet<ObjectUid>,
    judged: Judgement,
    now: Instant,
}

fn nqn() -> Nqn {
    "nqn.x:d0".parse().unwrap()
}

fn drive() -> Drive {
    Drive {
        serial: "S1".into(),
        model: "M".into(),
        firmware: "F".into(),
        slot: 8,
        capacity: 100,
        wear: 3,
        ..Drive::with_nqn(nqn())
    }
}

#[test]
fn an_unreadable_drive_keeps_its_name_and_slot() {
    let mut rabbit = Rabbit::well();
    rabbit.check();
    let fault = Some("it does not answer".to_owned());
    let (serial, model, firmware) = (String::new(), String::new(), String::new());
    let silent = Drive { serial, model, firmware, slot: 0, capacity: 0, fault, ..drive() };
    let seen = Observed { drives: vec![silent.clone()], ..Observed::default() };
    let [named] = &rabbit.judged.with_missing(seen.clone()).drives[..] else { panic!("one") };
    assert_eq!((&*named.serial, &*named.model, &*named.firmware), ("S1", "M", "F"));
    assert_eq!((named.slot, named.capacity, &named.fault), (8, 0, &silent.fault));
    assert_eq!(
        Judgement::default().with_missing(seen.clone()),
        seen,
        "no earlier check knew the drive"
    );

    let moved = Drive { serial: "S1".into(), model: "M".into(), slot: 3, ..silent };
    let seen = Observed { drives: vec![moved], ..Observed::default() };
    assert_eq!(
        rabbit.judged.with_missing(seen).drives[0].slot,
        3,
        "the slot of a readable drive is observed"
    );
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
            block_storage_uids: BTreeSet::new(),
            judged: Judgement::default(),
            now: Instant::now(),
        }
    }

    /// Runs a check, and returns the texts of all conditions.
    fn check(&mut self) -> Vec<String> {
        let (links, observed) = (self.links.clone(), self.observed.clone());
        let drives = DrivesRead::Complete { observed: &observed, unclaimed: &[], lost: &[] };
        self.judge(Some(&links), drives)
    }

    fn judge(&mut self, links: Option<&BTreeMap<u8, Link>>, drives: DrivesRead<'_>) -> Vec<String> {
        let (facts, block_storage_uids) = (Some(&self.facts), Some(&self.block_storage_uids));
        let seen =
            CheckFacts { computes: &self.computes, links, facts, drives, block_storage_uids };
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
fn the_temperature_of_a_drive_behind_a_switch_comes_from_smart() {
    let mut rabbit = Rabbit::well();
    rabbit.facts.drives.clear();
    rabbit.smart().temperature = Some(Temperature { now: 71, warning: Some(70), critical: None });
    assert!(rabbit.check()[0].contains("it is at 71 °C, threshold 70 °C"));
}

#[test]
fn a_healthy_rabbit_needs_no_further_check() {
    let mut rabbit = Rabbit::well();
    assert!(rabbit.check().is_empty());
    assert_eq!((rabbit.judged.settles, rabbit.judged.recheck), (None, None));
    assert_eq!(overall(&rabbit.judged), NnfResourceHealth::Ok);
    assert_eq!(health(&rabbit.judged, 100, 0).message, "");
}

#[test]
fn a_burst_of_checks_ends_no_condition() {
    let mut rabbit = Rabbit::well();
    rabbit.links.insert(0, Link::Down);
    rabbit.check();
    rabbit.links.insert(0, UP);
    for _ in 0..50 {
        assert_eq!(rabbit.check().len(), 1);
    }
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
    assert_eq!(
        rabbit.judged.recheck,
        Some(rabbit.now + RECHECK),
        "no event announces that the drive has cooled"
    );
    rabbit.warm(66);
    assert_eq!(
        rabbit.after(600).len(),
        1,
        "the drive is less than five degrees below the threshold"
    );
    rabbit.warm(65);
    assert_eq!(rabbit.after(600).len(), 1);
    rabbit.warm(64);
    rabbit.check();
    assert!(rabbit.after(5).is_empty());
    rabbit.warm(69);
    assert!(rabbit.check().is_empty(), "the drive was not hot before, and is below the threshold");
    rabbit.warm(80);
    assert_eq!(rabbit.check().len(), 2);
    assert_eq!(
        of_drive(&rabbit.judged, &nqn()),
        (NnfResourceStatus::Failed, NnfResourceHealth::Critical)
    );
}

#[test]
fn conditions_of_a_drive_that_the_check_did_not_read_stay() {
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
fn the_condition_of_low_spare_blocks_ends_two_percent_above_the_threshold() {
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
fn drive_warnings_map_to_states_and_end_by_themselves() {
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
        assert_eq!(
            overall(&rabbit.judged),
            NnfResourceHealth::Warning,
            "the rabbit serves from its other drives"
        );
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
fn a_silent_drive_keeps_its_warnings() {
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
    assert!(!rabbit.check().iter().any(|text| text.contains("nqn.x:d0")), "the drive was removed");
}

#[test]
fn only_error_counts_that_rose_since_the_last_check_are_reported_and_only_for_an_hour() {
    let mut rabbit = Rabbit::well();
    rabbit.smart().media_errors = 3;
    rabbit.smart().unsafe_shutdowns = 12;
    rabbit.drive().errors = Some(LinkErrors { correctable: 5000, nonfatal: 1, fatal: 1 });
    assert!(rabbit.check().is_empty(), "counts from before the agent's start are not reported");
    rabbit.smart().media_errors = 5;
    let errors = LinkErrors { correctable: 5000, nonfatal: 1, fatal: 2 };
    rabbit.drive().errors = Some(errors);
    let reported = rabbit.after(60);
    assert!(reported[0].contains("1 fatal, 0 nonfatal and 0 correctable"), "{reported:?}");
    assert!(reported[1].contains("5 media errors, 3 at the previous check"), "{reported:?}");
    assert_eq!(rabbit.after(60).len(), 2);
    assert_eq!(rabbit.after(3599).len(), 2);
    assert!(rabbit.after(1).is_empty());
    rabbit.drive().errors = Some(LinkErrors { correctable: 5099, ..errors });
    assert!(rabbit.check().is_empty(), "few corrected errors are not reported");
    rabbit.drive().errors = Some(LinkErrors::default());
    assert!(rabbit.check().is_empty(), "a drive that was plugged in again counts from zero");
}

#[test]
fn a_condition_due_to_end_but_unread_is_rechecked_once_a_minute() {
    let mut rabbit = Rabbit::well();
    rabbit.check();
    rabbit.smart().media_errors = 3;
    rabbit.after(60);
    rabbit.after(60);
    assert_eq!(rabbit.judged.settles, Some(rabbit.now + Duration::from_secs(3600)));
    let well = rabbit.observed.clone();
    rabbit.observed.drives[0].fault = Some("it does not answer".into());
    rabbit.observed.smart.clear();
    assert_eq!(rabbit.after(3600).len(), 2, "conditions stay as they were");
    assert_eq!(rabbit.judged.settles, None, "an immediate check would find the same");
    rabbit.observed = well;
    let reported = rabbit.after(60);
    assert!(
        !reported.iter().any(|text| text.contains("media errors")),
        "the count has not risen for an hour: {reported:?}"
    );
}

#[test]
fn conditions_of_memory_pressure_and_load_end_at_another_threshold_than_they_begin() {
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
fn unreadable_drives_are_critical_and_keep_their_conditions() {
    let mut rabbit = Rabbit::well();
    rabbit.smart().spare = 1;
    rabbit.check();
    let reported = rabbit.judge(None, DrivesRead::Failed);
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
