//! S6.2 to S6.5: containers that fail, are late, or wait.

use api::ContainerRunPhase as Phase;

use super::world::{brought_to, seconds};
use crate::claim::plan::State;

#[test]
fn s6_2_a_success_stays_one_when_a_pod_is_evicted_later() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Running);
    rabbits.iter_mut().for_each(|rabbit| rabbit.becomes(State::Succeeded));
    c1.settle(&mut server, &mut rabbits, seconds(0));
    let before = server.status();
    rabbits[1].becomes(State::Failed("Evicted".to_owned()));
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!((&before.phase, &server.status()), (&Phase::Succeeded, &before));
}

#[test]
fn s6_3_a_pod_that_is_evicted_is_replaced_by_its_job_or_fails_the_run_once() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Running);
    // The Job starts another pod on the same rabbit.
    rabbits[1].becomes(State::Starting);
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!(server.phase(), Phase::Running);
    // It has tried often enough.
    rabbits[1].becomes(State::Failed("Evicted".to_owned()));
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!((server.phase(), server.status().message.as_str()), (Phase::Failed, "r2: Evicted"));
    assert_eq!(rabbits[0].attempts[&1], State::Failed("ended".to_owned()), "it runs no more");
    let finals = server.history.iter().filter(|status| status.phase.is_final()).count();
    assert_eq!(finals, 1);
}

#[test]
fn s6_4_the_rabbit_whose_container_never_becomes_ready_is_named() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Starting);
    c1.settle(&mut server, &mut rabbits, seconds(0));
    rabbits[0].becomes(State::Ready);
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!(server.phase(), Phase::Starting, "one of two is ready");
    rabbits[1].becomes(State::TooLate);
    c1.settle(&mut server, &mut rabbits, seconds(0));
    let status = server.status();
    assert_eq!(
        (status.phase, status.message.as_str()),
        (Phase::Failed, "r2: was not ready in time")
    );
}

#[test]
fn s6_5_a_run_that_waited_is_prepared_again_as_another_attempt() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Starting);
    c1.settle(&mut server, &mut rabbits, seconds(0));
    server.want(|spec| spec.suspend = true);
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!(server.phase(), Phase::Suspended);
    server.want(|spec| spec.suspend = false);
    c1.settle(&mut server, &mut rabbits, seconds(0));
    let status = server.status();
    assert_eq!((status.phase, status.claim.epoch, status.attempt), (Phase::Starting, 2, 2));
    assert_eq!(rabbits[0].attempts.keys().collect::<Vec<_>>(), [&2]);
    rabbits.iter_mut().for_each(|rabbit| rabbit.becomes(State::Ready));
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!(server.phase(), Phase::Running);
}

#[test]
fn a_long_reason_fits_the_schema() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Running);
    rabbits[1].becomes(State::Failed("é".repeat(4000)));
    c1.settle(&mut server, &mut rabbits, seconds(0));
    let status = server.status();
    assert_eq!((status.phase, status.message.len()), (Phase::Failed, 4096));
}
