//! The wiring of a rabbit: the device at each port of each switch. The wiring is fixed here, because no switch reports
//! it.
//!
//! Source: NearNodeFlash/nnf-ec, `pkg/manager-fabric/config_default.yaml`. For each host, the logical ports of the
//! drives have the same order as the drives' physical ports.

use storage::{desired::Endpoint, observed::LinkEnd};

/// Number of switches of a rabbit. Their PAX ids are 0 and 1.
pub(super) const SWITCHES: u8 = 2;

/// Number of drives on each switch.
pub(super) const DRIVES_EACH: u8 = 9;

/// Number of computes on each switch.
const COMPUTES_EACH: u8 = 8;

/// The PCIe generation of every link.
pub(super) const GENERATION: u8 = 4;

const INTERSWITCH: u8 = 0;
const RABBIT: u8 = 24;
const COMPUTES: [u8; COMPUTES_EACH as usize] = [32, 34, 36, 38, 40, 42, 44, 46];
const DRIVES: [u8; DRIVES_EACH as usize] = [8, 10, 12, 14, 16, 18, 20, 22, 48];
/// The labels printed beside the slots, by switch.
const LABELS: [[u8; DRIVES_EACH as usize]; SWITCHES as usize] =
    [[8, 7, 15, 16, 17, 18, 14, 13, 12], [4, 5, 6, 2, 1, 9, 10, 11, 3]];

/// A port of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Port {
    pub(super) pax: u8,
    /// Physical port number within the switch.
    pub(super) port: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    /// Index within the rabbit, from 0.
    pub(super) index: u8,
    /// Label printed beside the slot.
    pub(super) label: u8,
    pub(super) at: Port,
}

/// The host port to which a virtual function is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) host: Port,
    /// Logical port within the domain of the host.
    pub(super) logical: u8,
}

/// Returns the slots of a switch, in the order of their index.
pub(super) fn slots(pax: u8) -> Vec<Slot> {
    let labels = LABELS.get(usize::from(pax)).into_iter().flatten();
    let first = pax * DRIVES_EACH;
    (first..)
        .zip(labels.zip(DRIVES))
        .map(|(index, (label, port))| Slot { index, label: *label, at: Port { pax, port } })
        .collect()
}

pub(super) fn label(index: u8) -> Option<u8> {
    let mut all = (0..SWITCHES).flat_map(slots);
    all.find(|slot| slot.index == index).map(|slot| slot.label)
}

/// Returns the host port to which the switch binds the function that this host has on the drive in `slot`. The rabbit
/// is plugged into both switches; it reaches a drive through the drive's own switch.
pub(super) fn seat(endpoint: Endpoint, slot: &Slot) -> Option<Seat> {
    match endpoint {
        Endpoint::Rabbit => {
            let host = Port { pax: slot.at.pax, port: RABBIT };
            Some(Seat { host, logical: slot.index % DRIVES_EACH })
        }
        Endpoint::Compute(compute) => {
            let port = *COMPUTES.get(usize::from(compute % COMPUTES_EACH))?;
            let pax = compute / COMPUTES_EACH;
            (pax < SWITCHES).then_some(Seat { host: Port { pax, port }, logical: slot.index })
        }
    }
}

/// Returns the hosts in the order of their virtual functions, whose numbers begin with 1.
pub(super) fn hosts() -> impl Iterator<Item = Endpoint> {
    let computes = (0..SWITCHES * COMPUTES_EACH).map(Endpoint::Compute);
    std::iter::once(Endpoint::Rabbit).chain(computes)
}

pub(super) fn host_at(port: Port) -> Option<Endpoint> {
    (0..SWITCHES).flat_map(ports).find_map(|(at, end, _)| match end {
        LinkEnd::Host(endpoint) if at == port => Some(endpoint),
        LinkEnd::Host(_) | LinkEnd::Drive { .. } | LinkEnd::OtherSwitch => None,
    })
}

/// Returns every wired port, with its number of lanes.
pub(super) fn ports(pax: u8) -> Vec<(Port, LinkEnd, u8)> {
    let at = |port| Port { pax, port };
    let mut all = vec![
        (at(INTERSWITCH), LinkEnd::OtherSwitch, 16),
        (at(RABBIT), LinkEnd::Host(Endpoint::Rabbit), 16),
    ];
    let first = pax * COMPUTES_EACH;
    let computes = (first..).zip(COMPUTES);
    all.extend(computes.map(|(k, port)| (at(port), LinkEnd::Host(Endpoint::Compute(k)), 4)));
    let drive = |slot: Slot| (slot.at, LinkEnd::Drive { index: slot.index, label: slot.label }, 4);
    all.extend(slots(pax).into_iter().map(drive));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(index: u8) -> Slot {
        let all: Vec<_> = (0..SWITCHES).flat_map(slots).collect();
        all[usize::from(index)]
    }

    #[test]
    fn slots_are_counted_over_both_switches() {
        let last = slot(17);
        assert_eq!((last.index, last.label, last.at), (17, 3, Port { pax: 1, port: 48 }));
        assert_eq!((slot(0).label, slot(0).at), (8, Port { pax: 0, port: 8 }));
        assert_eq!((slot(9).label, slot(9).at), (4, Port { pax: 1, port: 8 }));
        let mut labels: Vec<_> = (0..18).map(|index| slot(index).label).collect();
        labels.sort_unstable();
        assert_eq!(labels, (1..=18).collect::<Vec<_>>());
    }

    #[test]
    fn the_rabbit_reaches_a_drive_at_the_drives_switch_and_a_compute_at_its_own() {
        let seat = |endpoint, index| {
            let found = seat(endpoint, &slot(index)).unwrap();
            (found.host.pax, found.host.port, found.logical)
        };
        assert_eq!(seat(Endpoint::Rabbit, 4), (0, 24, 4));
        assert_eq!(seat(Endpoint::Rabbit, 17), (1, 24, 8));
        assert_eq!(seat(Endpoint::Compute(0), 17), (0, 32, 17));
        assert_eq!(seat(Endpoint::Compute(15), 0), (1, 46, 0));
        assert_eq!(super::seat(Endpoint::Compute(16), &slot(0)), None);
    }

    #[test]
    fn host_at_returns_the_host_of_each_host_port() {
        assert_eq!(hosts().count(), 17);
        for host in hosts() {
            let seat = seat(host, &slot(3)).unwrap();
            assert_eq!(host_at(seat.host), Some(host));
        }
        assert_eq!(host_at(Port { pax: 0, port: 8 }), None);
        assert_eq!(host_at(Port { pax: 2, port: 32 }), None);
    }

    #[test]
    fn every_wired_port_is_listed_once() {
        for pax in 0..SWITCHES {
            let mut all: Vec<_> = ports(pax).into_iter().map(|(port, ..)| port).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 1 + 1 + 8 + 9);
        }
    }
}
