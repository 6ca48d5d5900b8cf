use super::*;
use crate::{
    desired::NamespaceId,
    observed::{LogicalVolume, VolumeGroup, WARRENS},
};

fn id() -> NamespaceId {
    NamespaceId::parse("nqn.2026-01.io.warren:d0", "1").unwrap()
}

fn own_group(missing: u32) -> OwnGroup {
    let trouble = Some("partial".to_owned());
    let volume = LogicalVolume { name: "lv".into(), trouble, ..LogicalVolume::default() };
    let group = VolumeGroup {
        name: "vg".into(),
        tags: vec![WARRENS.into()],
        missing,
        volumes: vec![volume],
        ..VolumeGroup::default()
    };
    let (devices, unattached, lost) = (Vec::new(), Vec::new(), Vec::new());
    OwnGroup { group, allocation: None, devices, unattached, lost }
}

#[test]
fn link_drives_gives_a_drive_the_link_that_a_switch_reports_for_its_slot() {
    let nqn: Nqn = "nqn.2026-01.io.warren:d0".parse().unwrap();
    let drive = Drive { slot: 9, capacity: 1, ..Drive::with_nqn(nqn.clone()) };
    let mut facts = Facts { slots: BTreeMap::from([(9, Link::Down)]), ..Facts::default() };
    facts.link_drives(&[Drive { slot: 8, ..drive.clone() }]);
    assert!(facts.drives.is_empty(), "the link of slot 8 is unknown");
    facts.link_drives(&[drive]);
    assert_eq!(facts.drives[&nqn].link, Some(Link::Down));
}

#[test]
fn from_group_names_a_lost_namespace_with_its_drive() {
    let lost = vec![(id(), "it is not plugged in".to_owned())];
    let facts = GroupFacts::from_group(&OwnGroup { lost, ..own_group(1) }).unwrap();
    assert_eq!((facts.missing, facts.unwell.len()), (1, 1));
    assert_eq!(facts.lost, ["nqn.2026-01.io.warren:d0:1: it is not plugged in"]);
}

#[test]
fn from_group_does_not_count_an_unattached_namespace_as_missing() {
    let facts =
        GroupFacts::from_group(&OwnGroup { unattached: vec![id()], ..own_group(1) }).unwrap();
    assert_eq!((facts.missing, facts.unwell.len()), (0, 0));
    let facts =
        GroupFacts::from_group(&OwnGroup { unattached: vec![id()], ..own_group(2) }).unwrap();
    assert_eq!((facts.missing, facts.unwell.len()), (1, 1));
}

#[test]
fn from_group_counts_a_lost_namespace_as_missing_although_another_is_unattached() {
    let lost = vec![(id(), "another is in its slot".to_owned())];
    let group = OwnGroup { lost, unattached: vec![id()], ..own_group(1) };
    let facts = GroupFacts::from_group(&group).unwrap();
    assert_eq!((facts.missing, facts.unwell.len()), (1, 1));
    let repaired =
        GroupFacts::from_group(&OwnGroup { group: own_group(0).group, ..group }).unwrap();
    assert_eq!(repaired.missing, 0, "the lost device is no longer a member");
}

#[test]
fn a_group_without_warrens_tag_has_no_facts() {
    let mut other = own_group(1);
    other.group.tags = vec!["site".into()];
    assert_eq!(GroupFacts::from_group(&other), None);
}
