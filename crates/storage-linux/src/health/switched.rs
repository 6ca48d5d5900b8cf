//! Derives the links to computes and drives from the ports of PCIe switches. Does no I/O.

use std::collections::BTreeMap;

use storage::{
    desired::Endpoint,
    health::{Link, LinkRate},
    observed::{LinkEnd, LinkState, PortLink},
};

/// Number of compute slots of a chassis. When the switches do not answer, the link of each slot is unread.
const SLOTS: u8 = 16;

/// Returns the links of computes by slot; none on a node without switches. When the switches do not answer,
/// every link is unread.
pub(super) fn computes(answer: Result<Vec<PortLink>, String>) -> BTreeMap<u8, Link> {
    let ports = match answer {
        Ok(ports) => ports,
        Err(why) => return (0..SLOTS).map(|slot| (slot, Link::Unread(why.clone()))).collect(),
    };
    let compute = |port: PortLink| match port.end {
        LinkEnd::Host(Endpoint::Compute(slot)) => Some((slot, link(&port))),
        LinkEnd::Host(Endpoint::Rabbit) | LinkEnd::Drive { .. } | LinkEnd::OtherSwitch => None,
    };
    ports.into_iter().filter_map(compute).collect()
}

/// Returns those links of drives that are up or down, by slot. The link of a drive whose switch does not answer is left
/// out: such a drive has a fault that says so.
pub(super) fn slots(answer: Result<Vec<PortLink>, String>) -> BTreeMap<u32, Link> {
    let drive = |port: PortLink| match (port.end, link(&port)) {
        (LinkEnd::Drive { index, .. }, link @ (Link::Up { .. } | Link::Down)) => {
            Some((u32::from(index), link))
        }
        _ => None,
    };
    answer.unwrap_or_default().into_iter().filter_map(drive).collect()
}

/// Maps a port's state to the state of the link. A link in training counts as unread: some milliseconds later it
/// is up or down.
fn link(port: &PortLink) -> Link {
    match &port.state {
        LinkState::Up => Link::Up {
            current: LinkRate::of_generation(port.generation.now, port.width.now),
            most: LinkRate::of_generation(port.generation.full, port.width.full),
        },
        LinkState::Down | LinkState::Disabled => Link::Down,
        LinkState::Starting | LinkState::Training | LinkState::Other(_) => {
            Link::Unread(format!("port {} of switch {} is {}", port.port, port.switch, port.state))
        }
        LinkState::Unknown(why) => Link::Unread(why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::observed::Pair;

    fn port(end: LinkEnd, state: LinkState, width: u8, generation: u8) -> PortLink {
        PortLink {
            switch: 1,
            port: 34,
            end,
            state,
            width: Pair { now: width, full: 4 },
            generation: Pair { now: generation, full: 4 },
        }
    }

    fn compute(slot: u8, state: LinkState) -> PortLink {
        port(LinkEnd::Host(Endpoint::Compute(slot)), state, 2, 3)
    }

    #[test]
    fn links_of_computes_have_speed_and_width_by_slot() {
        let drive = LinkEnd::Drive { index: 0, label: 8 };
        let links = computes(Ok(vec![
            compute(9, LinkState::Up),
            compute(10, LinkState::Down),
            compute(11, LinkState::Disabled),
            port(LinkEnd::Host(Endpoint::Rabbit), LinkState::Down, 0, 0),
            port(drive, LinkState::Down, 0, 0),
        ]));
        assert_eq!(links.keys().copied().collect::<Vec<_>>(), [9, 10, 11]);
        let Link::Up { current: Some(current), most: Some(most) } = &links[&9] else {
            panic!("{links:?}")
        };
        assert_eq!(
            (current.to_string(), most.to_string()),
            ("8.0 GT/s x2".into(), "16.0 GT/s x4".into())
        );
        assert!(current.is_less_than(*most));
        assert_eq!((&links[&10], &links[&11]), (&Link::Down, &Link::Down));
    }

    #[test]
    fn a_link_in_training_is_unread() {
        for state in [LinkState::Starting, LinkState::Training, LinkState::Other(0x0A)] {
            let links = computes(Ok(vec![compute(9, state)]));
            let Link::Unread(why) = &links[&9] else { panic!("{links:?}") };
            assert!(why.starts_with("port 34 of switch 1 is "), "{why}");
        }
    }

    #[test]
    fn every_link_is_unread_when_the_switches_do_not_answer() {
        let unknown = LinkState::Unknown("the switch does not answer".into());
        assert!(matches!(computes(Ok(vec![compute(9, unknown)]))[&9], Link::Unread(_)));
        let all = computes(Err("/dev: permission denied".into()));
        assert_eq!(all.len(), 16);
        assert!(all.values().all(|link| matches!(link, Link::Unread(_))));
        assert!(computes(Ok(Vec::new())).is_empty(), "there is no switch");
    }

    #[test]
    fn links_of_drives_are_listed_when_they_are_up_or_down() {
        let drive = |index, state| port(LinkEnd::Drive { index, label: 8 }, state, 4, 4);
        let slots = slots(Ok(vec![
            drive(0, LinkState::Up),
            drive(9, LinkState::Down),
            drive(10, LinkState::Training),
            drive(11, LinkState::Unknown("it does not answer".into())),
            compute(3, LinkState::Down),
        ]));
        assert_eq!(slots.keys().copied().collect::<Vec<_>>(), [0, 9]);
        assert_eq!(slots[&9], Link::Down);
        assert!(super::slots(Err("/dev: permission denied".into())).is_empty());
    }
}
