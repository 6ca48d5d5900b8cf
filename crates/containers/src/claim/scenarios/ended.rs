//! S6.2 to S6.5: containers that fail, are late, or are suspended.

use api::ContainerRunPhase as Phase;

use super::world::{brought_to, seconds};
use crate::claim::plan::RabbitState;

#[test]
fn s6_2_a_success_stays_one_when_a_pod_is_evicted_later() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Running);
    rabbits.iter_mut().for_each(|rabbit| rabbit.becomes(RabbitState::Succeeded));
    c1.settle(&mut server, &mut rabbits, seconds(0));
    let before = server.status();
    rabbits[1].becomes(RabbitState::Failed("Evicted".to_owned()));
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!((&before.phase, &server.status()), (&Phase::Succeeded, &before));
}

#[test]
fn s6_3_an_evicted_pod_is_replaced_by_its_job_or_fails_the_run_once() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Running);
    // The Job starts another pod on the same rabbit.
    rabbits[1].becomes(RabbitState::Starting);
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!(server.phase(), Phase::Running);
    // The Job has reached its backoff limit.
    rabbits[1].becomes(RabbitState::Failed("Evicted".to_owned()));
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!((server.phase(), server.status().message.as_str()), (Phase::Failed, "r2: Evicted"));
    assert_eq!(rabbits[0].attempts[&1], RabbitState::Failed("ended".to_owned()), "r1 is stopped");
    let finals = server.history.iter().filter(|status| status.phase.is_final()).count();
    assert_eq!(finals, 1);
}

#[test]
fn s6_4_a_missed_deadline_names_the_rabbit_that_is_not_ready() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Starting);
    c1.settle(&mut server, &mut rabbits, seconds(0));
    rabbits[0].becomes(RabbitState::Ready);
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!(server.phase(), Phase::Starting, "one of two is ready");
    rabbits[1].becomes(RabbitState::TooLate);
    c1.settle(&mut server, &mut rabbits, seconds(0));
    let status = server.status();
    assert_eq!(
        (status.phase, status.message.as_str()),
        (Phase::Failed, "r2: was not ready in time")
    );
}

#[test]
fn s6_5_a_suspended_run_is_prepared_again_as_another_attempt() {
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
    rabbits.iter_mut().for_each(|rabbit| rabbit.becomes(RabbitState::Ready));
    c1.settle(&mut server, &mut rabbits, seconds(0));
    assert_eq!(server.phase(), Phase::Running);
}

#[test]
fn a_long_reason_is_cut_to_the_schemas_length() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Running);
    rabbits[1].becomes(RabbitState::Failed("é".repeat(4000)));
    c1.settle(&mut server, &mut rabbits, seconds(0));
    let status = server.status();
    assert_eq!((status.phase, status.message.len()), (Phase::Failed, 4096));
}
