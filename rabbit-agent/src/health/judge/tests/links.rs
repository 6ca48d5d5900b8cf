//! Tests of links to computes and drives.

use super::*;

#[test]
fn a_flapping_link_is_down_until_it_stays_up() {
    let mut rabbit = Rabbit::well();
    rabbit.check();
    rabbit.links.insert(0, Link::Down);
    let reported =
        "compute-01 (index 0): its PCIe link is down: power it on, or check its cable and the port";
    assert_eq!(rabbit.after(1), [reported], "a lost link is reported at once");
    rabbit.links.insert(0, UP);
    assert_eq!(rabbit.after(1), [reported]);
    assert_eq!(rabbit.judged.settles, Some(rabbit.now + Duration::from_secs(5)));
    rabbit.links.insert(0, Link::Down);
    assert_eq!(rabbit.after(1), [reported]);
    assert_eq!(
        (rabbit.judged.settles, rabbit.judged.recheck),
        (None, None),
        "an event announces the end of the condition"
    );
    rabbit.links.insert(0, UP);
    assert_eq!(rabbit.after(1), [reported]);
    assert_eq!(rabbit.after(4), [reported]);
    assert!(rabbit.after(1).is_empty());
    assert_eq!(rabbit.judged.settles, None);
}

#[test]
fn an_unreadable_link_keeps_its_conditions() {
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
fn a_compute_that_is_no_longer_configured_has_no_conditions() {
    let mut rabbit = Rabbit::well();
    rabbit.links.insert(0, Link::Down);
    assert_eq!(rabbit.check().len(), 1);
    rabbit.computes.clear();
    assert!(rabbit.check().is_empty());
}

#[test]
fn an_unreadable_link_is_rechecked_once_a_minute() {
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
fn a_check_of_the_links_alone_does_not_end_conditions_of_drives() {
    let mut rabbit = Rabbit::well();
    rabbit.observed.drives[0].warnings = vec![DriveWarning::SpareLow];
    rabbit.check();
    rabbit.observed.drives[0].warnings.clear();
    rabbit.check();
    assert_eq!(rabbit.judged.settles, Some(rabbit.now + Duration::from_secs(5)));
    rabbit.now += Duration::from_secs(5);
    let links = rabbit.links.clone();
    assert_eq!(rabbit.judge(Some(&links), DrivesRead::NotRead).len(), 1);
    let judged = &rabbit.judged;
    assert_eq!((judged.settles, judged.recheck), (None, Some(rabbit.now + RECHECK)));
    assert!(rabbit.check().is_empty(), "the next check of the drives ends the condition");
    assert_eq!((rabbit.judged.settles, rabbit.judged.recheck), (None, None));
}

#[test]
fn a_degraded_link_is_reported_with_actual_and_possible_rate() {
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
            .all(|text| text.contains("runs at 8.0 GT/s x2, and both ends support 16.0 GT/s x4")),
        "{reported:?}"
    );
    let full = Link::Up { current: rate(16_000, 4), most: rate(16_000, 4) };
    rabbit.drive().link = Some(full.clone());
    rabbit.links.insert(0, full);
    rabbit.check();
    assert!(rabbit.after(5).is_empty());
}
