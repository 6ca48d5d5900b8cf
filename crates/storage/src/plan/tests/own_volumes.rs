//! Tests the removal of leftovers of volume groups that are gone.

use crate::observed::{Mapping, OwnGroup, VolumeGroup};

use super::*;

const GROUP: &str = "a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11_0";

fn mapping(volume: &str, layers: usize, on: &[&str]) -> Mapping {
    Mapping {
        name: format!("{}-{volume}", GROUP.replace('-', "--")),
        number: DeviceNumber { major: 253, minor: 0 },
        layers,
        on: on.iter().map(|&name| name.to_owned()).collect(),
    }
}

fn collected(keep: &[&str], observed: &Observed) -> Vec<String> {
    let keep = keep.iter().map(|group| group.parse().unwrap()).collect();
    lines(plan(&Desired::OnlyVolumes(keep), observed))
}

fn leftovers() -> Observed {
    Observed { lock_spaces: vec![GROUP.into()], ..Observed::default() }
}

#[test]
fn mappings_that_lie_on_no_device_are_removed_from_top_to_bottom() {
    let mappings = vec![mapping("lv_rimage_0", 1, &[]), mapping("lv", 2, &[])];
    let observed = Observed { mappings, ..Observed::default() };
    let names: Vec<_> = collected(&[], &observed);
    assert!(names[0].contains("_0-lv,") && names[1].contains("_0-lv_rimage_0,"), "{names:?}");
}

#[test]
fn a_mapping_with_a_device_and_its_lock_space_stay() {
    let mappings = vec![mapping("lv", 1, &["nvme0n1"])];
    assert_eq!(collected(&[], &Observed { mappings, ..leftovers() }), [""; 0]);
}

#[test]
fn leftovers_of_existing_objects_and_volumes_with_foreign_names_stay() {
    let observed = Observed { mappings: vec![mapping("lv", 1, &[])], ..leftovers() };
    assert_eq!(collected(&[&GROUP[..36]], &observed), [""; 0]);
    let foreign = Mapping { name: "vg0-root".into(), ..mapping("lv", 1, &[]) };
    let observed =
        Observed { mappings: vec![foreign], lock_spaces: vec!["vg0".into()], ..leftovers() };
    assert_eq!(collected(&[], &observed), [""; 0]);
}

#[test]
fn the_lock_space_of_a_group_that_is_gone_is_dropped() {
    let expected = [format!("leave the lock space of volume group {GROUP}, which is gone")];
    assert_eq!(collected(&[], &leftovers()), expected);
    let group = VolumeGroup { name: GROUP.into(), ..VolumeGroup::default() };
    let (devices, unattached, lost) = (Vec::new(), Vec::new(), Vec::new());
    let own_group = OwnGroup { group, allocation: None, devices, unattached, lost };
    assert_eq!(collected(&[], &Observed { groups: vec![own_group], ..leftovers() }), [""; 0]);
}

/// A group that was not found may lie on a drive that does not answer, or on a namespace that is not attached.
#[test]
fn a_lock_space_stays_while_the_observation_is_incomplete() {
    let faulty = Drive { fault: Some("it does not answer".into()), ..drive(0, 100, 0) };
    assert_eq!(collected(&[], &Observed { drives: vec![faulty], ..leftovers() }), [""; 0]);
    let id = AllocationId { owner: uid(), index: 0 };
    let gone = Drive { fault: Some("another is in its slot".into()), ..drive(0, 100, 0) };
    let mut lost = namespace(1, NamespaceOwner::Ours(id), &[], false);
    lost.id.subsystem = gone.nqn.clone();
    let replaced = [gone.nqn.clone()].into();
    let mut observed = Observed { drives: vec![gone], namespaces: vec![lost], ..leftovers() };
    assert_eq!(collected(&[], &observed), [""; 0]);
    observed.replaced = replaced;
    assert_eq!(collected(&[], &observed).len(), 1, "the replaced drive cannot have the group");
    for (owner, device, stays) in [
        (NamespaceOwner::Ours(id), false, true),
        (NamespaceOwner::Ours(id), true, false),
        (NamespaceOwner::Unknown, true, true),
        (NamespaceOwner::Foreign("other".into()), false, false),
    ] {
        let namespaces = vec![namespace(1, owner.clone(), &[], device)];
        let steps = collected(&[], &Observed { namespaces, ..leftovers() });
        assert_eq!(steps.is_empty(), stays, "{owner:?}");
    }
}
