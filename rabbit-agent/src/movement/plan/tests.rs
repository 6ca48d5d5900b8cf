use std::collections::VecDeque;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use movement::report::Progress;
use storage::desired::ObjectUid;

use super::*;

const LIMITS: Limits = Limits { grace: Duration::from_secs(2), clean: Duration::from_secs(10) };

fn ended(outcome: Outcome) -> Ended {
    Ended { outcome, progress: Progress::default() }
}

fn verdict(outcome: Outcome) -> Seen {
    Seen { end: Some(End::Verdict(ended(outcome))), has_begun: true, ..Seen::default() }
}

fn process(task: Task) -> Process {
    Process { task, age: Duration::from_secs(1), cancelled: None, killed: None }
}

fn runs(process: Process) -> Seen {
    Seen { process: Some(process), has_begun: true, ..Seen::default() }
}

/// A copy that was cancelled and killed so many milliseconds ago.
fn cancelled(millis: u64, killed: Option<u64>) -> Seen {
    let (cancelled, killed) =
        (Some(Duration::from_millis(millis)), killed.map(Duration::from_millis));
    runs(Process { cancelled, killed, ..process(Task::Copy) })
}

/// A cleaning process that was started and killed so many milliseconds ago.
fn cleans(millis: u64, killed: Option<u64>) -> Seen {
    let (age, killed) = (Duration::from_millis(millis), killed.map(Duration::from_millis));
    runs(Process { age, killed, ..process(Task::Clean) })
}

fn lost(losses: u32) -> Seen {
    let end = Some(End::Lost("signal: 9".to_owned()));
    Seen { end, losses, has_begun: true, ..Seen::default() }
}

#[test]
fn each_movement_has_one_next_step() {
    use Want::{Cancelled, Copy, Gone};
    let begun = || Seen { has_begun: true, ..Seen::default() };
    let clean = || Seen { is_clean: true, ..begun() };
    let wait = |millis| MovementStep::Wait(Duration::from_millis(millis));
    let done = || ended(Outcome::Done);
    let stopped = || Outcome::Stopped("full".to_owned());
    let cases = [
        (Copy, Seen::default(), MovementStep::Start),
        (Copy, begun(), MovementStep::Start),
        (Copy, runs(process(Task::Copy)), MovementStep::Follow),
        (Copy, verdict(Outcome::Done), MovementStep::Finish(done())),
        (Copy, verdict(stopped()), MovementStep::Finish(ended(stopped()))),
        (Copy, verdict(Outcome::Cancelled), MovementStep::Finish(ended(Outcome::Cancelled))),
        (Copy, lost(1), MovementStep::Start),
        (Copy, lost(MOST_LOSSES), MovementStep::Fail("signal: 9".to_owned())),
        // The cancellation was taken back; the copy follows.
        (Copy, cleans(1000, None), wait(9000)),
        (Cancelled, Seen::default(), MovementStep::FinishCancelled),
        (Cancelled, runs(process(Task::Copy)), MovementStep::Cancel),
        (Cancelled, cancelled(0, None), wait(2000)),
        (Cancelled, cancelled(1500, None), wait(500)),
        (Cancelled, cancelled(2000, None), MovementStep::Kill),
        (Cancelled, cancelled(2100, Some(100)), wait(900)),
        (Cancelled, cancelled(3000, Some(1000)), MovementStep::Stuck),
        (Cancelled, lost(1), MovementStep::Clean),
        (Cancelled, begun(), MovementStep::Clean),
        (Cancelled, cleans(9000, None), wait(1000)),
        (Cancelled, cleans(10_000, None), MovementStep::Kill),
        (Cancelled, cleans(11_000, Some(1000)), MovementStep::Stuck),
        (Cancelled, clean(), MovementStep::FinishCancelled),
        (Cancelled, verdict(Outcome::Done), MovementStep::Finish(done())),
        (Gone, Seen::default(), MovementStep::Release),
        (Gone, runs(process(Task::Copy)), MovementStep::Cancel),
        (Gone, cancelled(2000, None), MovementStep::Kill),
        (Gone, verdict(Outcome::Done), MovementStep::Release),
        (Gone, verdict(Outcome::Cancelled), MovementStep::Release),
        (Gone, verdict(stopped()), MovementStep::Clean),
        (Gone, begun(), MovementStep::Clean),
        (Gone, clean(), MovementStep::Release),
    ];
    for (want, seen, expected) in cases {
        assert_eq!(plan(want, &seen, LIMITS), expected, "{want:?} {seen:?}");
    }
}

/// The uid of a movement by its number.
fn uid(number: u32) -> ObjectUid {
    format!("00000000-0000-4000-8000-{number:012}").parse().unwrap()
}

/// A movement of a user, created so many seconds after the first.
fn movement(user: i64, number: u32) -> Waiting {
    let created = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(number.into());
    Waiting { uid: uid(number), user, created, has_begun: false }
}

/// Name; movements that wait; users of those that run; users in the order of their turns; places; numbers of those that start.
type Case = (&'static str, Vec<Waiting>, &'static [i64], &'static [i64], usize, &'static [u32]);

#[test]
fn users_take_turns() {
    let begun = |user, number| Waiting { has_begun: true, ..movement(user, number) };
    let cases: [Case; 9] = [
        ("nothing waits", vec![], &[], &[], 4, &[]),
        ("the oldest starts first", vec![movement(1, 2), movement(1, 1)], &[], &[], 1, &[1]),
        (
            "all that fit start",
            vec![movement(1, 1), movement(1, 2), movement(1, 3)],
            &[],
            &[],
            2,
            &[1, 2],
        ),
        ("none starts while all places are taken", vec![movement(1, 1)], &[2, 2], &[], 2, &[]),
        ("a lower limit stops nothing", vec![movement(1, 1)], &[2, 2, 2], &[], 2, &[]),
        (
            "another user is next",
            vec![movement(1, 1), movement(1, 2), movement(2, 3)],
            &[],
            &[],
            2,
            &[1, 3],
        ),
        ("the user of whom fewer run", vec![movement(1, 1), movement(2, 2)], &[1], &[], 2, &[2]),
        (
            "one place: the user whose turn was longer ago",
            vec![movement(1, 1), movement(1, 2), movement(2, 3)],
            &[],
            &[2, 1],
            1,
            &[3],
        ),
        ("one that was begun goes on first", vec![movement(1, 1), begun(2, 2)], &[], &[], 1, &[2]),
    ];
    for (name, waiting, running, served, most, expected) in cases {
        let served: VecDeque<i64> = served.iter().copied().collect();
        let expected: Vec<_> = expected.iter().copied().map(uid).collect();
        assert_eq!(turns(&waiting, running, &served, most), expected, "{name}");
    }
}

#[test]
fn a_single_movement_waits_for_one_turn_of_another_user_at_most() {
    let mut waiting: Vec<_> = (1..=100).map(|number| movement(1, number)).collect();
    waiting.push(movement(2, 1000));
    let mut served = VecDeque::new();
    let first = turns(&waiting, &[], &served, 1);
    assert_eq!(first, [uid(1)]);
    waiting.retain(|movement| movement.uid != uid(1));
    served.push_back(1);
    assert_eq!(turns(&waiting, &[], &served, 1), [uid(1000)]);
}
