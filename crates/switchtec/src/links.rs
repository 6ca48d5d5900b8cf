//! Reads the state, speed and width of the links at the ports of a switch.

use drives::nvme::in_one_line;
use storage::observed::{LinkEnd, LinkState, Pair, PortLink};

use super::{
    command::SwitchError,
    topology::{GENERATION, Port, ports},
    wire::LinkEntry,
};

const UP: u8 = 1 << 7;

/// Returns every wired port of a switch, including ports that are missing from the switch's answer.
pub(super) fn of_switch(pax: u8, answer: Result<Vec<LinkEntry>, SwitchError>) -> Vec<PortLink> {
    let answer =
        answer.map_err(|error| in_one_line("read the link states from the switch", &error));
    ports(pax).into_iter().map(|(port, end, lanes)| link(port, end, lanes, &answer)).collect()
}

fn link(
    Port { pax, port }: Port,
    end: LinkEnd,
    lanes: u8,
    answer: &Result<Vec<LinkEntry>, String>,
) -> PortLink {
    let unknown = |why: &str| (LinkState::Unknown(why.to_owned()), Pair { now: 0, full: lanes }, 0);
    let (state, width, generation) = match answer {
        Err(why) => unknown(why),
        Ok(entries) => match entries.iter().find(|entry| entry.port == port) {
            None => unknown("the switch does not list the port"),
            Some(entry) => (state(entry), width(entry, lanes), entry.rate & !UP),
        },
    };
    let generation = Pair { now: generation, full: GENERATION };
    PortLink { switch: pax, port, end, state, width, generation }
}

fn width(entry: &LinkEntry, lanes: u8) -> Pair {
    let configured = entry.configured_width;
    Pair { now: entry.negotiated_width, full: if configured == 0 { lanes } else { configured } }
}

/// Maps the major LTSSM state to the state of the link (NearNodeFlash/nnf-ec, `PortLinkState`). L0s and L1 are
/// power-saving states of a link that is up.
pub(super) fn state(entry: &LinkEntry) -> LinkState {
    let [major, _] = entry.ltssm.get().to_le_bytes();
    match major {
        0x03 | 0x08 | 0x09 => LinkState::Up,
        0x00 => LinkState::Down,
        0x01 => LinkState::Starting,
        0x02 | 0x04 => LinkState::Training,
        0x05 => LinkState::Disabled,
        other => LinkState::Other(other),
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;
    use storage::desired::Endpoint;

    fn entry(port: u8, ltssm: u16, width: u8, rate: u8) -> LinkEntry {
        let mut entry = LinkEntry::new_zeroed();
        (entry.port, entry.ltssm) = (port, ltssm.into());
        (entry.configured_width, entry.negotiated_width, entry.rate) = (4, width, rate);
        entry
    }

    fn at(links: &[PortLink], port: u8) -> &PortLink {
        links.iter().find(|link| link.port == port).unwrap()
    }

    #[test]
    fn links_are_up_degraded_or_down_and_name_the_device_at_their_end() {
        let entries = vec![
            entry(32, 0x0203, 4, UP | 4),
            entry(34, 0x0003, 2, UP | 3),
            entry(36, 0x0100, 0, 0),
            entry(8, 0x0009, 4, UP | 4),
        ];
        let links = of_switch(1, Ok(entries));
        let compute = at(&links, 32);
        assert_eq!(
            (&compute.end, &compute.state),
            (&LinkEnd::Host(Endpoint::Compute(8)), &LinkState::Up)
        );
        assert!(compute.width.now == compute.width.full);
        assert!(at(&links, 34).width.now < at(&links, 34).width.full);
        assert_eq!(at(&links, 36).state, LinkState::Down);
        assert_eq!(at(&links, 8).end, LinkEnd::Drive { index: 9, label: 4 });
        assert_eq!(at(&links, 8).state, LinkState::Up);
        let LinkState::Unknown(why) = &at(&links, 24).state else { panic!() };
        assert_eq!(why, "the switch does not list the port");
    }

    #[test]
    fn every_port_of_a_silent_switch_has_an_unknown_state() {
        let links = of_switch(0, Err(SwitchError::Absent { pax: 0, source: None }));
        assert_eq!(links.len(), 19);
        assert!(links.iter().all(|link| matches!(link.state, LinkState::Unknown(_))));
    }
}
