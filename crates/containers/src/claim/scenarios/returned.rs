//! S2.9 and S4: the API was unreachable or restored from a backup, rabbits come back, clocks differ.

use std::collections::BTreeMap;

use api::{ContainerRunPhase as Phase, nnf_port_manager::NnfPortManagerAllocation};
use k8s_openapi::api::core::v1::ObjectReference;

use super::world::{Coordinator, brought_to, seconds};
use crate::{
    claim::{
        plan::{RabbitState, Step},
        scenarios::fence::{Journal, Verdict},
    },
    ports::{self, Records, numbers},
};

#[test]
fn s2_9_a_rabbit_that_comes_back_ends_the_containers_of_a_deleted_run() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Running);
    rabbits[0].is_silent = true;
    server.want(|spec| spec.priority = 0);
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!(server.phase(), Phase::Stopping, "the silent rabbit may still run containers");
    rabbits[0].is_lost = true;
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!(server.phase(), Phase::Cancelled);
    server.delete();
    rabbits[0].is_lost = false;
    assert_eq!(rabbits[0].attempts[&1], RabbitState::Ready);
    rabbits[0].comes_back(&server);
    assert!(rabbits[0].attempts.is_empty());
    // A rabbit that comes back keeps its containers if their run continues.
    let (server, _, mut rabbits) = brought_to(&Phase::Running);
    rabbits[0].comes_back(&server);
    assert_eq!(rabbits[0].attempts[&1], RabbitState::Ready);
}

#[test]
fn s4_1_while_the_api_is_unreachable_no_coordinator_acts_or_takes_over() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Running);
    let mut c2 = Coordinator::alive("c2", &mut server, seconds(0));
    server.is_away = true;
    for now in (10..300).step_by(10).map(seconds) {
        c1.tick(&mut server, now);
        c2.tick(&mut server, now);
    }
    assert!(!c1.may_act(seconds(21)) && c1.may_act(seconds(20)));
    assert_eq!(rabbits[0].attempts[&1], RabbitState::Ready);
    server.is_away = false;
    // For 5 minutes no coordinator could renew its Lease. C2 reads C1's Lease before C1 has renewed it.
    c2.tick(&mut server, seconds(300));
    assert_eq!(c2.planned_step(&rabbits, seconds(300)), Step::Wait);
    c1.tick(&mut server, seconds(301));
    c1.settle(&mut server, &mut rabbits, seconds(301));
    let status = server.status();
    assert_eq!((status.phase, status.claim.epoch, status.attempt), (Phase::Running, 1, 1));
}

#[test]
fn s4_2_after_a_restore_of_the_api_a_claim_exceeds_the_epochs_that_rabbits_recorded() {
    let (mut server, _, mut rabbits) = brought_to(&Phase::Running);
    let backup = server.clone();
    let claim_after = |pod: &str, server: &mut _, rabbits: &mut Vec<_>, since: u64| {
        let mut taker = Coordinator::alive(pod, server, seconds(since));
        (1..=3).for_each(|tick| taker.tick(server, seconds(since + 10 * tick)));
        assert!(matches!(taker.step(server, rabbits, seconds(since + 30)), Ok(Step::Write(_))));
        taker
    };
    let mut c2 = claim_after("c2", &mut server, &mut rabbits, 0);
    for rabbit in &mut rabbits {
        c2.command(&server, rabbit, &Step::Start, seconds(0));
    }
    // The API has lost all changes since the backup: so C3 gets the epoch that C2 had before.
    server.restore(&backup);
    let mut c3 = claim_after("c3", &mut server, &mut rabbits, 100);
    assert_eq!(server.status().claim.epoch, 2);
    let verdict = c3.command(&server, &mut rabbits[0], &Step::Start, seconds(0));
    assert_eq!(verdict, Verdict::Stale(c2.claim()));
    c3.settle(&mut server, &mut rabbits, seconds(130));
    let status = server.status();
    assert_eq!((status.claim.epoch, status.attempt, &status.phase), (3, 1, &Phase::Running));
    // A rabbit ends an attempt that the API no longer knows.
    rabbits[0].attempts.insert(2, RabbitState::Ready);
    let verdict = c3.command(&server, &mut rabbits[0], &Step::Start, seconds(0));
    assert_eq!(verdict, Verdict::Obey(c3.claim()));
    assert_eq!(rabbits[0].attempts.keys().collect::<Vec<_>>(), [&1]);
}

#[test]
fn s4_3_a_rabbit_with_a_new_disk_obeys_only_after_a_coordinator_told_it_the_stored_claim() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Claimed);
    let rabbit = &mut rabbits[0];
    (rabbit.journal, rabbit.asks) = (Journal::Lost, false);
    let verdict = c1.command(&server, rabbit, &Step::Prepare, seconds(0));
    assert_eq!((verdict, rabbit.prepared_for.len()), (Verdict::NotSynced, 0));
    assert_eq!(rabbit.journal, Journal::Kept(c1.claim()));
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!(server.phase(), Phase::Starting);
    // A rabbit that gets a new disk during a run loses its containers too.
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Running);
    rabbits[0].journal = Journal::Lost;
    rabbits[0].attempts.clear();
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!((server.phase(), server.status().attempt), (Phase::Failed, 1));
    assert_eq!(server.status().message, "r1: no container is left");
}

#[test]
fn s4_4_a_run_waits_for_a_rabbit_without_power() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Running);
    rabbits[0].is_silent = true;
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!((server.phase(), &rabbits[1].attempts[&1]), (Phase::Running, &RabbitState::Ready));
    // The rabbit comes back, and Kubernetes starts its container again.
    rabbits[0].comes_back(&server);
    rabbits[0].becomes(RabbitState::Starting);
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!((server.phase(), server.status().attempt), (Phase::Running, 1));
}

#[test]
fn s4_5_fifty_requesters_at_once_all_get_ports_and_no_port_twice() {
    let listed: Vec<u16> = (5000..5050).collect();
    let mut record: Vec<NnfPortManagerAllocation> = Vec::new();
    let mut version = 0;
    let mut waiting: Vec<usize> = (0..50).collect();
    let mut conflicts = 0;
    while !waiting.is_empty() {
        let read = (record.clone(), version);
        waiting.retain(|writer| {
            if read.1 != version {
                conflicts += 1;
                return true;
            }
            let requester =
                ObjectReference { uid: Some(writer.to_string()), ..ObjectReference::default() };
            let records: Records<'_> = BTreeMap::from([("r", &*read.0)]);
            let chosen = ports::choose(&listed, &records, &requester, 1, |_| false).unwrap();
            record = ports::assign(&read.0, &requester, &chosen, |_| false);
            version += 1;
            false
        });
    }
    let mut taken_ports: Vec<u16> = record.iter().flat_map(numbers).collect();
    taken_ports.sort_unstable();
    assert_eq!(taken_ports, listed);
    assert_eq!(conflicts, 49 * 50 / 2);
}

#[test]
fn s4_6_a_coordinator_whose_clock_is_ahead_does_not_take_over() {
    let (mut server, mut c1, rabbits) = brought_to(&Phase::Running);
    let ahead = 600;
    let mut c2 = Coordinator::alive("c2", &mut server, seconds(ahead));
    for now in [10, 20, 30, 40, 50, 60] {
        c1.tick(&mut server, seconds(now));
        c2.tick(&mut server, seconds(ahead + now));
        assert_eq!(c2.planned_step(&rabbits, seconds(ahead + now)), Step::Wait);
    }
}

#[test]
fn s4_7_rabbits_stop_obeying_a_coordinator_without_the_api_before_another_takes_its_run_over() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Running);
    let mut c2 = Coordinator::alive("c2", &mut server, seconds(0));
    let before = server.clone();
    let latest = (0..=60).filter(|now| c1.may_act(seconds(*now))).max().unwrap();
    let taken = (1..=60)
        .find(|now| {
            c2.tick(&mut server, seconds(*now));
            c2.step(&mut server, &mut rabbits, seconds(*now)).is_ok_and(|step| step != Step::Wait)
        })
        .unwrap();
    // The last command that C1 sent before it stopped acting arrives late, but just early enough for a rabbit to obey
    // it.
    let obeyed = (0..=60).filter(|age| {
        let verdict = c1.command(&before, &mut rabbits[0], &Step::Wait, seconds(*age));
        matches!(verdict, Verdict::Obey(_))
    });
    let last = latest + obeyed.max().unwrap();
    assert!(last < taken, "C1 was obeyed at {last} s, C2 took over at {taken} s");
    c2.command(&server, &mut rabbits[0], &Step::Wait, seconds(0));
    let verdict = c1.command(&before, &mut rabbits[0], &Step::Stop, seconds(0));
    assert!(matches!(verdict, Verdict::Stale(_)), "{verdict:?}");
}
