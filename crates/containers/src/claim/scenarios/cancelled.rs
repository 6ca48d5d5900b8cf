//! S6.1: a run is cancelled, in each phase.

use api::ContainerRunPhase as Phase;

use super::world::{Coordinator, Rabbit, Server, brought_to, seconds};
use crate::claim::{plan::RabbitState, rules};

/// Brings a run into this phase, which must not be final. Returns the API, the run's coordinator and its rabbits.
fn in_phase(phase: &Phase) -> (Server, Coordinator, Vec<Rabbit>) {
    let is_suspended = matches!(phase, Phase::Stopping | Phase::Suspended);
    if !is_suspended {
        return brought_to(phase);
    }
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Running);
    server.want(|spec| spec.suspend = true);
    while server.phase() != *phase {
        c1.read(&server);
        c1.step(&mut server, &mut rabbits, seconds(0)).unwrap();
    }
    (server, c1, rabbits)
}

fn ends_cancelled(mut server: Server, mut by: Coordinator, mut rabbits: Vec<Rabbit>, from: &str) {
    let ran = rabbits
        .iter()
        .any(|rabbit| rabbit.attempts.values().any(|state| *state == RabbitState::Ready));
    let passed = server.history.len();
    server.want(|spec| spec.priority = 0);
    by.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!(server.phase(), Phase::Cancelled, "from {from}");
    for rabbit in &rabbits {
        let left: Vec<_> =
            rabbit.attempts.values().filter(|state| **state != RabbitState::Nothing).collect();
        assert!(left.is_empty(), "from {from}: {} has {left:?}", rabbit.name);
    }
    let stopped = server.history[passed..].iter().any(|status| status.phase == Phase::Stopping);
    assert_eq!(stopped, ran && from != "Stopping", "from {from}: {:?}", server.history);
    let finals = server.history.iter().filter(|status| status.phase.is_final()).count();
    assert_eq!(finals, 1, "from {from}");
}

#[test]
fn s6_1_a_run_is_cancelled_in_each_phase_and_leaves_nothing() {
    for phase in [Phase::Claimed, Phase::Running, Phase::Stopping, Phase::Suspended] {
        let (server, c1, rabbits) = in_phase(&phase);
        ends_cancelled(server, c1, rabbits, phase.as_str());
    }
}

#[test]
fn s6_1_any_coordinator_cancels_an_open_run() {
    let mut server = Server::new(&["r1"]);
    let c1 = Coordinator::alive("c1", &mut server, seconds(0));
    ends_cancelled(server, c1, vec![Rabbit::new("r1")], "no status");
    let (mut server, _, rabbits) = in_phase(&Phase::Suspended);
    let c2 = Coordinator::alive("c2", &mut server, seconds(0));
    ends_cancelled(server, c2, rabbits, "Suspended");
}

#[test]
fn s6_1_starting_containers_are_stopped_before_the_run_is_cancelled() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Starting);
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!(rabbits[0].attempts[&1], RabbitState::Starting);
    server.want(|spec| spec.priority = 0);
    c1.settle(&mut server, &mut rabbits, seconds(0));
    let phases: Vec<_> = server.history.iter().map(|status| status.phase.as_str()).collect();
    assert_eq!(phases, ["Claimed", "Starting", "Stopping", "Cancelled"]);
}

#[test]
fn a_run_whose_rabbits_are_never_prepared_fails_after_its_last_claim_attempt() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Claimed);
    server.want(|spec| spec.max_claim_attempts = 3);
    while !server.phase().is_final() {
        let attempt = server.status().attempt;
        rabbits[1].attempts.insert(attempt, RabbitState::TooLate);
        c1.read(&server);
        c1.step(&mut server, &mut rabbits, seconds(0)).unwrap();
    }
    let status = server.status();
    assert_eq!((status.phase, status.attempt), (Phase::Failed, 3));
    assert!(status.message.starts_with("ClaimAttemptsExceeded after 3 attempts: r2: was not"));
    assert!(!rules::is_open(&Phase::Failed));
}
