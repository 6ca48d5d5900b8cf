use std::collections::VecDeque;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use movement::report::Progress;
use storage::desired::ObjectUid;

use super::*;

const LIMITS: Limits = Limits { grace: Duration::from_secs(2), clean: Duration::from_secs(10) };

fn ended(outcome: Outcome) -> Ended {
    Ended { outcome, progress: Progress::default() }
}

fn verdict(outcome: Outcome) -> MovementState {
    MovementState {
        end: Some(End::Verdict(ended(outcome))),
        has_begun: true,
        ..MovementState::default()
    }
}

fn process(task: Task) -> Process {
    Process { task, age: Duration::from_secs(1), cancelled: None, killed: None }
}

fn runs(process: Process) -> MovementState {
    MovementState { process: Some(process), has_begun: true, ..MovementState::default() }
}

/// A copy that was cancelled `millis` and killed `killed` milliseconds ago.
fn cancelled(millis: u64, killed: Option<u64>) -> MovementState {
    let (cancelled, killed) =
        (Some(Duration::from_millis(millis)), killed.map(Duration::from_millis));
    runs(Process { cancelled, killed, ..process(Task::Copy) })
}

/// A process that removes temporary files, started `millis` and killed `killed` milliseconds ago.
fn cleans(millis: u64, killed: Option<u64>) -> MovementState {
    let (age, killed) = (Duration::from_millis(millis), killed.map(Duration::from_millis));
    runs(Process { age, killed, ..process(Task::Clean) })
}

fn lost(losses: u32) -> MovementState {
    let end = Some(End::Lost("signal: 9".to_owned()));
    MovementState { end, losses, has_begun: true, ..MovementState::default() }
}

#[test]
fn the_next_step_follows_from_goal_and_state_of_a_movement() {
    use Want::{Cancelled, Copy, Gone};
    let begun = || MovementState { has_begun: true, ..MovementState::default() };
    let clean = || MovementState { is_clean: true, ..begun() };
    let wait = |millis| MovementStep::Wait(Duration::from_millis(millis));
    let done = || ended(Outcome::Done);
    let stopped = || Outcome::Stopped("full".to_owned());
    let cases = [
        (Copy, MovementState::default(), MovementStep::Start),
        (Copy, begun(), MovementStep::Start),
        (Copy, runs(process(Task::Copy)), MovementStep::Follow),
        (Copy, verdict(Outcome::Done), MovementStep::Finish(done())),
        (Copy, verdict(stopped()), MovementStep::Finish(ended(stopped()))),
        (Copy, verdict(Outcome::Cancelled), MovementStep::Finish(ended(Outcome::Cancelled))),
        (Copy, lost(1), MovementStep::Start),
        (Copy, lost(MOST_LOSSES), MovementStep::Fail("signal: 9".to_owned())),
        // The user took the cancellation back: the copy starts once the process that removes temporary files has ended.
        (Copy, cleans(1000, None), wait(9000)),
        (Cancelled, MovementState::default(), MovementStep::FinishCancelled),
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
        (Gone, MovementState::default(), MovementStep::Release),
        (Gone, runs(process(Task::Copy)), MovementStep::Cancel),
        (Gone, cancelled(2000, None), MovementStep::Kill),
        (Gone, verdict(Outcome::Done), MovementStep::Release),
        (Gone, verdict(Outcome::Cancelled), MovementStep::Release),
        (Gone, verdict(stopped()), MovementStep::Clean),
        (Gone, begun(), MovementStep::Clean),
        (Gone, clean(), MovementStep::Release),
    ];
    for (want, state, expected) in cases {
        assert_eq!(plan(want, &state, LIMITS), expected, "{want:?} {state:?}");
    }
}

/// The uid of a movement by its number.
fn uid(number: u32) -> ObjectUid {
    format!("00000000-0000-4000-8000-{number:012}").parse().unwrap()
}

/// A movement of this user, created `number` seconds after the epoch.
fn movement(user: i64, number: u32) -> Waiting {
    let created = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(number.into());
    Waiting { uid: uid(number), user, created, has_begun: false }
}

/// Name; waiting movements; users of running movements; users by their latest start, the latest last; limit of running
/// movements; numbers of the movements that start.
type Case = (&'static str, Vec<Waiting>, &'static [i64], &'static [i64], usize, &'static [u32]);

#[test]
fn movements_that_have_begun_start_first_and_then_users_take_turns() {
    let begun = |user, number| Waiting { has_begun: true, ..movement(user, number) };
    let cases: [Case; 9] = [
        ("no movement waits: none starts", vec![], &[], &[], 4, &[]),
        (
            "one user, one free place: the oldest starts",
            vec![movement(1, 2), movement(1, 1)],
            &[],
            &[],
            1,
            &[1],
        ),
        (
            "two free places: the two oldest start",
            vec![movement(1, 1), movement(1, 2), movement(1, 3)],
            &[],
            &[],
            2,
            &[1, 2],
        ),
        ("as many run as allowed: none starts", vec![movement(1, 1)], &[2, 2], &[], 2, &[]),
        (
            "more run than allowed, as the limit was lowered: none starts",
            vec![movement(1, 1)],
            &[2, 2, 2],
            &[],
            2,
            &[],
        ),
        (
            "two users, two free places: one movement of each starts",
            vec![movement(1, 1), movement(1, 2), movement(2, 3)],
            &[],
            &[],
            2,
            &[1, 3],
        ),
        (
            "one user has a running movement: the other user's starts",
            vec![movement(1, 1), movement(2, 2)],
            &[1],
            &[],
            2,
            &[2],
        ),
        (
            "two users, one free place: the user whose last turn is longer ago",
            vec![movement(1, 1), movement(1, 2), movement(2, 3)],
            &[],
            &[2, 1],
            1,
            &[3],
        ),
        (
            "a movement that an earlier agent began starts first",
            vec![movement(1, 1), begun(2, 2)],
            &[],
            &[],
            1,
            &[2],
        ),
    ];
    for (name, waiting, running, served, most, expected) in cases {
        let served: VecDeque<i64> = served.iter().copied().collect();
        let expected: Vec<_> = expected.iter().copied().map(uid).collect();
        assert_eq!(turns(&waiting, running, &served, most), expected, "{name}");
    }
}

#[test]
fn a_users_only_movement_starts_after_at_most_one_of_another_users_hundred_movements() {
    let mut waiting: Vec<_> = (1..=100).map(|number| movement(1, number)).collect();
    waiting.push(movement(2, 1000));
    let mut served = VecDeque::new();
    let first = turns(&waiting, &[], &served, 1);
    assert_eq!(first, [uid(1)]);
    waiting.retain(|movement| movement.uid != uid(1));
    served.push_back(1);
    assert_eq!(turns(&waiting, &[], &served, 1), [uid(1000)]);
}
