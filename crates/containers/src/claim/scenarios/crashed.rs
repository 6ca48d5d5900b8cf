//! S2: coordinators crash, pause, restart without memory, or act after another coordinator has taken over.

use api::ContainerRunPhase as Phase;

use super::world::{Coordinator, Rabbit, Refused, Server, brought_to, seconds};
use crate::claim::{
    plan::{RabbitState, Step},
    rules::Rule,
    scenarios::fence::{Verdict, counts},
};

/// Makes C2 watch C1's Lease until C2 may take over, and take over.
fn take_over(server: &mut Server, rabbits: &mut [Rabbit]) -> Coordinator {
    let mut c2 = Coordinator::alive("c2", server, seconds(0));
    for now in [10, 20, 30] {
        c2.tick(server, seconds(now));
    }
    assert!(matches!(c2.step(server, rabbits, seconds(30)), Ok(Step::Write(_))));
    c2
}

#[test]
fn s2_1_another_coordinator_continues_a_run_whose_coordinator_crashed_before_it_prepared() {
    let (mut server, _, mut rabbits) = brought_to(&Phase::Claimed);
    let mut c2 = take_over(&mut server, &mut rabbits);
    let status = server.status();
    assert_eq!((status.claim.epoch, status.attempt), (2, 1));
    assert_eq!(c2.step(&mut server, &mut rabbits, seconds(30)), Ok(Step::Prepare));
    c2.settle(&mut server, &mut rabbits, seconds(30));
    assert_eq!(server.phase(), Phase::Starting);
    assert_eq!(rabbits[0].prepared_for.iter().collect::<Vec<_>>(), [&2]);
}

#[test]
fn s2_2_a_restarted_coordinator_adopts_running_containers() {
    let (mut server, _, mut rabbits) = brought_to(&Phase::Running);
    let before: Vec<_> = rabbits.iter().map(|rabbit| rabbit.attempts.clone()).collect();
    let mut c2 = take_over(&mut server, &mut rabbits);
    c2.settle(&mut server, &mut rabbits, seconds(30));
    let status = server.status();
    assert_eq!((status.phase, status.claim.epoch, status.attempt), (Phase::Running, 2, 1));
    let after: Vec<_> = rabbits.iter().map(|rabbit| rabbit.attempts.clone()).collect();
    assert_eq!(before, after);
    rabbits.iter_mut().for_each(|rabbit| rabbit.becomes(RabbitState::Succeeded));
    c2.settle(&mut server, &mut rabbits, seconds(30));
    assert_eq!(server.phase(), Phase::Succeeded);
}

#[test]
fn s2_3_a_paused_coordinator_is_stopped_by_itself_by_the_api_and_by_the_rabbit() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Running);
    let mut c2 = take_over(&mut server, &mut rabbits);
    c2.command(&server, &mut rabbits[0], &Step::Start, seconds(0));
    // C1 was paused in the middle of a write, and continues now.
    let read = c1.cached.clone().unwrap();
    let mut stale = read.status.clone().unwrap();
    (stale.phase, stale.writer.seq) = (Phase::Succeeded, stale.writer.seq + 1);
    assert_eq!(server.write("c1", &read, stale.clone()), Err(Refused::Conflict));
    stale.writer.seq = server.status().writer.seq + 1;
    let read_again = server.run();
    let refused = server.write("c1", &read_again, stale);
    assert_eq!(refused, Err(Refused::By(vec![Rule::R1, Rule::R2])));
    let verdict = c1.command(&server, &mut rabbits[0], &Step::Stop, seconds(0));
    assert_eq!(verdict, Verdict::Stale(c2.claim()));
    // C1 plans no step, because it has not renewed its Lease for too long.
    assert_eq!(c1.planned_step(&rabbits, seconds(60)), Step::Wait);
    c1.tick(&mut server, seconds(60));
    assert_eq!(c1.planned_step(&rabbits, seconds(60)), Step::Wait, "C1 knows that C2 has the run");
    assert_eq!(server.phase(), Phase::Running);
}

#[test]
fn s2_4_a_blind_patch_after_a_takeover_changes_nothing() {
    let (mut server, c1, mut rabbits) = brought_to(&Phase::Running);
    take_over(&mut server, &mut rabbits);
    let mut patched = server.status();
    patched.phase = Phase::Succeeded;
    let refused = server.write_blindly(&c1.pod, patched);
    assert_eq!(refused, Err(Refused::By(vec![Rule::R5, Rule::V1, Rule::V2])));
    assert_eq!(server.phase(), Phase::Running);
}

#[test]
fn s2_5_a_rabbits_report_on_an_earlier_claim_does_not_count() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Claimed);
    let first = c1.claim();
    rabbits.iter_mut().for_each(|rabbit| {
        rabbit.attempts.insert(1, RabbitState::TooLate);
    });
    assert!(matches!(c1.step(&mut server, &mut rabbits, seconds(0)), Ok(Step::Write(_))));
    let released = server.status();
    assert_eq!((released.phase, released.claim.epoch, released.attempt), (Phase::Queued, 1, 1));
    assert!(released.message.contains("r1: was not ready in time"), "{}", released.message);
    assert!(matches!(c1.step(&mut server, &mut rabbits, seconds(0)), Ok(Step::Write(_))));
    let status = server.status();
    assert_eq!((status.claim.epoch, status.attempt), (2, 2));
    assert!(!counts(&status, first.epoch, first.attempt));
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!(rabbits[0].prepared_for.iter().collect::<Vec<_>>(), [&2]);
    assert!(counts(&server.status(), 2, 2));
}

#[test]
fn s2_6_containers_that_an_earlier_attempt_started_late_end_before_the_next_attempt_begins() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Claimed);
    rabbits.iter_mut().for_each(|rabbit| {
        rabbit.attempts.insert(1, RabbitState::TooLate);
    });
    c1.step(&mut server, &mut rabbits, seconds(0)).unwrap();
    // The kubelet was slow: attempt 1 begins to run only now.
    rabbits[0].becomes(RabbitState::Ready);
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!((server.phase(), server.status().attempt), (Phase::Starting, 2));
    assert_eq!(rabbits[0].attempts.keys().collect::<Vec<_>>(), [&2]);
    assert_eq!(rabbits[0].side_by_side, 1, "two attempts ran side by side");
}

#[test]
fn s2_7_a_run_that_ended_without_a_coordinator_ends_as_its_containers_did() {
    for (state, expected) in [
        (RabbitState::Succeeded, Phase::Succeeded),
        (RabbitState::Failed("container app exited with 3".to_owned()), Phase::Failed),
    ] {
        let (mut server, _, mut rabbits) = brought_to(&Phase::Running);
        rabbits.iter_mut().for_each(|rabbit| rabbit.becomes(state.clone()));
        let mut c2 = take_over(&mut server, &mut rabbits);
        c2.settle(&mut server, &mut rabbits, seconds(30));
        assert_eq!(server.phase(), expected);
        assert!(!server.status().message.contains("lost"));
    }
}

#[test]
fn s2_8_a_run_does_not_end_while_a_rabbit_is_silent() {
    let (mut server, _, mut rabbits) = brought_to(&Phase::Running);
    rabbits[0].is_silent = true;
    let mut c2 = take_over(&mut server, &mut rabbits);
    c2.settle(&mut server, &mut rabbits, seconds(30));
    assert_eq!((server.phase(), &rabbits[1].attempts[&1]), (Phase::Running, &RabbitState::Ready));
    // A failure on another rabbit does not end the run, because the silent rabbit may still run containers of the run.
    rabbits[1].becomes(RabbitState::Failed("container app exited with 3".to_owned()));
    c2.settle(&mut server, &mut rabbits, seconds(30));
    assert_eq!(server.phase(), Phase::Running);
    rabbits[0].is_lost = true;
    c2.settle(&mut server, &mut rabbits, seconds(30));
    assert_eq!(server.phase(), Phase::Failed);
    assert!(server.status().message.contains("r1: is lost"), "{}", server.status().message);
}

#[test]
fn s2_10_a_cancellation_does_not_replace_an_earlier_success() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Running);
    server.want(|spec| spec.priority = 0);
    rabbits.iter_mut().for_each(|rabbit| rabbit.becomes(RabbitState::Succeeded));
    let mut late = c1.clone();
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!(server.phase(), Phase::Succeeded);
    late.read(&server);
    let (read, mut cancelled) = (server.run(), server.status());
    (cancelled.phase, cancelled.writer.seq) = (Phase::Cancelled, cancelled.writer.seq + 1);
    let refused = server.write("c1", &read, cancelled);
    assert_eq!(refused, Err(Refused::By(vec![Rule::R6, Rule::R7])));
    let finals = server.history.iter().filter(|status| status.phase.is_final()).count();
    assert_eq!(finals, 1);
}
