//! S1 and S3: several coordinators want the same run, or a coordinator writes in the name of another.

use api::ContainerRunPhase as Phase;

use super::world::{Coordinator, Rabbit, Refused, Server, brought_to, seconds};
use crate::claim::{
    Holder,
    plan::{RabbitState, Step},
    rules::Rule,
    scenarios::fence::{Command, Confirmation, Journal, Record, Verdict},
};

#[test]
fn s1_1_of_two_claims_at_once_the_first_wins_and_the_other_gets_a_conflict() {
    let mut server = Server::new(&["r"]);
    let mut rabbits = [Rabbit::new("r")];
    let now = seconds(0);
    let mut c1 = Coordinator::alive("c1", &mut server, now);
    let mut c2 = Coordinator::alive("c2", &mut server, now);
    assert!(matches!(c1.step(&mut server, &mut rabbits, now), Ok(Step::Write(_))));
    assert_eq!(c2.step(&mut server, &mut rabbits, now), Err(Refused::Conflict));
    for coordinator in [&mut c1, &mut c2] {
        coordinator.step(&mut server, &mut rabbits, now).unwrap();
    }
    assert_eq!(server.status().claim.holder, "c1/1");
    assert_eq!(rabbits[0].prepared_for.len(), 1);
    assert_eq!(rabbits[0].journal, Journal::Kept(c1.claim()));
    assert_eq!(c2.planned_step(&rabbits, now), Step::Wait);
}

#[test]
fn s1_2_a_claim_with_the_same_epoch_is_refused_and_waits_for_the_lease_to_expire() {
    let (mut server, _, rabbits) = brought_to(&Phase::Claimed);
    let mut c2 = Coordinator::alive("c2", &mut server, seconds(0));
    let mut stolen = server.status();
    (stolen.claim.holder, stolen.writer.holder) = ("c2/1".to_owned(), "c2/1".to_owned());
    stolen.writer.seq += 1;
    let read = server.run();
    assert_eq!(server.write("c2", &read, stolen), Err(Refused::By(vec![Rule::R2])));
    for now in [10, 20, 29] {
        c2.tick(&mut server, seconds(now));
        assert_eq!(c2.planned_step(&rabbits, seconds(now)), Step::Wait, "after {now} s");
    }
    c2.tick(&mut server, seconds(30));
    assert!(matches!(c2.planned_step(&rabbits, seconds(30)), Step::Write(_)));
}

/// Random numbers decide when each coordinator reads the run. Each acts on the version that it has read, even if other
/// coordinators have acted since.
#[test]
fn s1_3_three_coordinators_prepare_each_of_many_runs_once_for_each_claim() {
    let mut draw = 0x2545_f491_4f6c_dd1d_u64;
    let mut drawn = move |below: u64| {
        draw ^= draw << 13;
        draw ^= draw >> 7;
        draw ^= draw << 17;
        usize::try_from(draw % below).unwrap()
    };
    let mut conflicts = 0;
    for run in 0..500 {
        let mut server = Server::new(&["r"]);
        let mut rabbits = [Rabbit::new("r")];
        let now = seconds(0);
        let mut coordinators =
            ["c1", "c2", "c3"].map(|pod| Coordinator::alive(pod, &mut server, now));
        for _ in 0..40 {
            let coordinator = &mut coordinators[drawn(3)];
            if drawn(2) == 0 {
                coordinator.read(&server);
            }
            let stepped = coordinator.step(&mut server, &mut rabbits, now);
            conflicts += usize::from(stepped == Err(Refused::Conflict));
        }
        let mut epochs: Vec<i64> = server.history.iter().map(|status| status.claim.epoch).collect();
        assert!(epochs.is_sorted(), "run {run}: {epochs:?}");
        epochs.dedup();
        assert_eq!(epochs.len(), 1, "run {run} was claimed once: {epochs:?}");
        assert_eq!(rabbits[0].prepared_for.len(), 1, "run {run}");
    }
    assert!(conflicts > 100, "only {conflicts} conflicts: the coordinators did not race");
}

#[test]
fn s1_4_a_rabbit_refuses_the_same_epoch_of_another_holder() {
    let (server, mut c1, mut rabbits) = brought_to(&Phase::Starting);
    let rabbit = &mut rabbits[0];
    let guessed = Record { holder: "c2/1".to_owned(), epoch: 1, attempt: 1 };
    let command = Command { by: guessed, age: seconds(0), is_sync: false };
    let before = rabbit.attempts.clone();
    let verdict = rabbit.receive(&server, &command, &Step::Prepare);
    assert_eq!(verdict, Verdict::Stale(c1.claim()));
    assert_eq!((rabbit.stale, &rabbit.attempts), (1, &before));
    assert!(matches!(c1.command(&server, rabbit, &Step::Start, seconds(0)), Verdict::Obey(_)));
}

#[test]
fn s1_5_a_coordinator_whose_watch_lags_neither_claims_a_run_nor_removes_its_containers() {
    let (mut server, mut c1, mut rabbits) = brought_to(&Phase::Running);
    let mut behind = Coordinator::alive("c2", &mut Server::new(&["r1", "r2"]), seconds(0));
    rabbits.iter_mut().for_each(|rabbit| rabbit.becomes(RabbitState::Succeeded));
    c1.settle(&mut server, &mut rabbits, seconds(0));
    // C2's watch still shows the run as queued.
    let claimed = behind.step(&mut server, &mut rabbits, seconds(0));
    assert_eq!((claimed, server.phase()), (Err(Refused::Conflict), Phase::Succeeded));
    // C1's watch still shows the run as ended and not wanted; since then a new run was created under the same name.
    server.want(|spec| spec.priority = 0);
    c1.read(&server);
    assert_eq!(c1.planned_step(&rabbits, seconds(0)), Step::CleanUp);
    let before = rabbits.clone();
    let mut anew = Server::new(&["r1", "r2"]);
    assert_eq!(c1.step(&mut anew, &mut rabbits, seconds(0)), Ok(Step::Wait));
    let attempts =
        |rabbits: &[Rabbit]| rabbits.iter().map(|rabbit| rabbit.attempts.clone()).collect();
    let (before, after): (Vec<_>, Vec<_>) = (attempts(&before), attempts(&rabbits));
    assert_eq!(before, after);
}

#[test]
fn s3_1_a_process_in_another_pod_cannot_write_as_the_holder() {
    let (mut server, c1, _) = brought_to(&Phase::Claimed);
    let mut next = server.status();
    next.writer.seq += 1;
    let read = server.run();
    assert_eq!(server.write("c2", &read, next.clone()), Err(Refused::By(vec![Rule::V1])));
    assert_eq!(server.write(&c1.pod, &read, next), Ok(()));
}

#[test]
fn s3_2_two_processes_in_one_pod_are_two_holders() {
    let (mut server, c1, rabbits) = brought_to(&Phase::Claimed);
    let mut second = Coordinator::new(&c1.pod, "2");
    second.tick(&mut server, seconds(0));
    assert_eq!(second.planned_step(&rabbits, seconds(0)), Step::Wait);
    let (read, mut status) = (server.run(), server.status());
    status.writer.holder = second.me.to_string();
    status.writer.seq += 1;
    assert_eq!(server.write(&c1.pod, &read, status.clone()), Err(Refused::By(vec![Rule::R4])));
    status.claim.holder = second.me.to_string();
    assert_eq!(server.write(&c1.pod, &read, status), Err(Refused::By(vec![Rule::R2])));
    assert_eq!(Holder::new("p", "1").as_str(), "p/1");
}

#[test]
fn s3_4_a_rabbit_asks_another_coordinator_before_it_obeys_a_new_holder() {
    let (server, mut c1, mut rabbits) = brought_to(&Phase::Running);
    let forged = Record { holder: "thief/1".to_owned(), epoch: 9, attempt: 2 };
    let command = Command { by: forged.clone(), age: seconds(0), is_sync: false };
    let before = rabbits[0].clone();
    assert_eq!(rabbits[0].receive(&server, &command, &Step::Stop), Verdict::Forged);
    assert_eq!((&rabbits[0].attempts, &rabbits[0].journal), (&before.attempts, &before.journal));
    // The rabbit has no other coordinator to ask. The real holder notices the false claim, and claims the run again.
    let alone = rabbits[1].journal.judge(&command, Confirmation::NoOtherCoordinator);
    assert_eq!(alone, Verdict::Obey(forged));
    rabbits[1].asks = false;
    rabbits[1].receive(&server, &command, &Step::Wait);
    let verdict = c1.command(&server, &mut rabbits[1], &Step::Start, seconds(0));
    assert!(matches!(verdict, Verdict::Stale(_)), "{verdict:?}");
    let Step::Write(status) = c1.planned_step(&rabbits, seconds(0)) else { panic!("no claim") };
    assert_eq!((status.claim.epoch, status.attempt), (10, 1));
}
