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
    let wait = |millis| Step::Wait(Duration::from_millis(millis));
    let done = || ended(Outcome::Done);
    let stopped = || Outcome::Stopped("full".to_owned());
    let cases = [
        (Copy, Seen::default(), Step::Start),
        (Copy, begun(), Step::Start),
        (Copy, runs(process(Task::Copy)), Step::Follow),
        (Copy, verdict(Outcome::Done), Step::Finish(done())),
        (Copy, verdict(stopped()), Step::Finish(ended(stopped()))),
        (Copy, verdict(Outcome::Cancelled), Step::Finish(ended(Outcome::Cancelled))),
        (Copy, lost(1), Step::Start),
        (Copy, lost(MOST_LOSSES), Step::Fail("signal: 9".to_owned())),
        // The cancellation was taken back; the copy follows.
        (Copy, cleans(1000, None), wait(9000)),
        (Cancelled, Seen::default(), Step::FinishCancelled),
        (Cancelled, runs(process(Task::Copy)), Step::Cancel),
        (Cancelled, cancelled(0, None), wait(2000)),
        (Cancelled, cancelled(1500, None), wait(500)),
        (Cancelled, cancelled(2000, None), Step::Kill),
        (Cancelled, cancelled(2100, Some(100)), wait(900)),
        (Cancelled, cancelled(3000, Some(1000)), Step::Stuck),
        (Cancelled, lost(1), Step::Clean),
        (Cancelled, begun(), Step::Clean),
        (Cancelled, cleans(9000, None), wait(1000)),
        (Cancelled, cleans(10_000, None), Step::Kill),
        (Cancelled, cleans(11_000, Some(1000)), Step::Stuck),
        (Cancelled, clean(), Step::FinishCancelled),
        (Cancelled, verdict(Outcome::Done), Step::Finish(done())),
        (Gone, Seen::default(), Step::Release),
        (Gone, runs(process(Task::Copy)), Step::Cancel),
        (Gone, cancelled(2000, None), Step::Kill),
        (Gone, verdict(Outcome::Done), Step::Release),
        (Gone, verdict(Outcome::Cancelled), Step::Release),
        (Gone, verdict(stopped()), Step::Clean),
        (Gone, begun(), Step::Clean),
        (Gone, clean(), Step::Release),
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
fn of(user: i64, number: u32) -> Waiting {
    let created = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(number.into());
    Waiting { uid: uid(number), user, created, has_begun: false }
}

#[test]
fn users_take_turns() {
    let begun = |user, number| Waiting { has_begun: true, ..of(user, number) };
    let cases: [(&str, Vec<Waiting>, &[i64], &[i64], usize, &[u32]); 9] = [
        ("nothing waits", vec![], &[], &[], 4, &[]),
        ("the oldest starts first", vec![of(1, 2), of(1, 1)], &[], &[], 1, &[1]),
        ("all that fit start", vec![of(1, 1), of(1, 2), of(1, 3)], &[], &[], 2, &[1, 2]),
        ("none starts while all places are taken", vec![of(1, 1)], &[2, 2], &[], 2, &[]),
        ("a lower limit stops nothing", vec![of(1, 1)], &[2, 2, 2], &[], 2, &[]),
        ("another user is next", vec![of(1, 1), of(1, 2), of(2, 3)], &[], &[], 2, &[1, 3]),
        ("the user of whom fewer run", vec![of(1, 1), of(2, 2)], &[1], &[], 2, &[2]),
        (
            "one place: the user whose turn was longer ago",
            vec![of(1, 1), of(1, 2), of(2, 3)],
            &[],
            &[2, 1],
            1,
            &[3],
        ),
        ("one that was begun goes on first", vec![of(1, 1), begun(2, 2)], &[], &[], 1, &[2]),
    ];
    for (name, waiting, running, served, most, expected) in cases {
        let served: VecDeque<i64> = served.iter().copied().collect();
        let expected: Vec<_> = expected.iter().copied().map(uid).collect();
        assert_eq!(turns(&waiting, running, &served, most), expected, "{name}");
    }
}

#[test]
fn a_single_movement_waits_for_one_turn_of_another_user_at_most() {
    let mut waiting: Vec<_> = (1..=100).map(|number| of(1, number)).collect();
    waiting.push(of(2, 1000));
    let mut served = VecDeque::new();
    let first = turns(&waiting, &[], &served, 1);
    assert_eq!(first, [uid(1)]);
    waiting.retain(|one| one.uid != uid(1));
    served.push_back(1);
    assert_eq!(turns(&waiting, &[], &served, 1), [uid(1000)]);
}
