use k8s_openapi::jiff::SignedDuration;
use movement::report::Total;

use super::*;

const MIB: u64 = 1 << 20;

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

fn total(files: u64, bytes: u64) -> Option<Total> {
    Some(Total { files, bytes })
}

fn reading(progress: Progress, seconds: i64) -> Reading {
    Reading { progress, at: at(seconds), began: at(0) }
}

#[test]
fn a_running_status_has_message_percentage_elapsed_time_and_rate() {
    let copied = |bytes, files| Progress { bytes, files, ..Progress::default() };
    let cases = [
        (copied(0, 0), 0, None, "0 B so far", "0s", ""),
        (
            Progress { total: total(40, 200 * MIB), ..copied(100 * MIB, 20) },
            10,
            Some(50),
            "50 %, 100.0 MiB of 200.0 MiB, 10.0 MiB/s, about 10s left",
            "10s",
            "10.0 MiB/s",
        ),
        (
            Progress { total: total(40, 200 * MIB), kept: 90 * MIB, ..copied(100 * MIB, 20) },
            10,
            Some(50),
            "50 %, 100.0 MiB of 200.0 MiB, 1.0 MiB/s, about 1m40s left",
            "10s",
            "1.0 MiB/s",
        ),
        (
            Progress { total: total(40, 0), failed: 2, ..copied(0, 10) },
            5,
            Some(25),
            "25 %, 10 of 40 files, 2 not copied",
            "5s",
            "",
        ),
        // The source grew after it was counted.
        (
            Progress { total: total(1, MIB), ..copied(2 * MIB, 2) },
            3661,
            Some(99),
            "99 %, 2.0 MiB of 1.0 MiB, 572 B/s",
            "1h1m1s",
            "572 B/s",
        ),
        (copied(3 * MIB, 2), 2, None, "3.0 MiB so far, 1.5 MiB/s", "2s", "1.5 MiB/s"),
    ];
    for (progress, seconds, percent, message, elapsed, rate) in cases {
        let status =
            running(&NnfDataMovementStatus::default(), Some(&reading(progress, seconds)), at(0), 0);
        let command = &status.command_status;
        assert_eq!(command.last_message, message);
        assert_eq!(
            (command.progress, &*command.elapsed_time, &*command.rate),
            (percent, elapsed, rate)
        );
        assert_eq!(status.state, Some(DataMovementState::Running));
    }
}

#[test]
fn a_restarted_copy_keeps_its_percentage_and_its_first_start_time() {
    let before = |percent| Progress { bytes: percent, total: total(1, 100), ..Progress::default() };
    let first =
        running(&NnfDataMovementStatus::default(), Some(&reading(before(60), 10)), at(1), 0);
    let again = Reading { progress: before(20), at: at(31), began: at(30) };
    let again = running(&first, Some(&again), at(30), 1);
    assert_eq!(again.command_status.progress, Some(60));
    assert_eq!((again.start_time, again.restarts), (Some(at(1).into()), 1));
    assert_eq!(again.command_status.elapsed_time, "30s");
}

#[test]
fn judge_returns_the_verdict_and_a_message_with_the_first_failures() {
    use DataMovementVerdict::{Cancelled, Failed, Success};
    let failure = |path: &str| DataMovementFailure {
        path: path.to_owned(),
        action: "open".to_owned(),
        errno: Some(13),
        error: "Permission denied (os error 13)".to_owned(),
    };
    let failed = |failed| Progress { failed, ..Progress::default() };
    let denied = "(open): Permission denied (os error 13)";
    let cases = [
        (Outcome::Done, Progress::default(), vec![], Success, String::new()),
        (
            Outcome::Done,
            Progress { changed: 1, ..Progress::default() },
            vec![],
            Success,
            "1 file changed while it was copied".to_owned(),
        ),
        (
            Outcome::Done,
            failed(1),
            vec![failure("a\nb")],
            Failed,
            format!("1 file or directory was not copied: a\\nb {denied}"),
        ),
        (
            Outcome::Done,
            failed(9),
            ["a", "b", "c", "d"].map(failure).into(),
            Failed,
            format!(
                "9 files or directories were not copied: a {denied}; b {denied}; c {denied}; and 6 more"
            ),
        ),
        (Outcome::Cancelled, Progress::default(), vec![], Cancelled, "cancelled".to_owned()),
        (
            Outcome::Stopped("no space is left".to_owned()),
            failed(1),
            vec![failure("a")],
            Failed,
            "no space is left".to_owned(),
        ),
    ];
    for (outcome, progress, failures, verdict, message) in cases {
        let ended = Ended { outcome, progress };
        let judged = judge(&ended, failures.clone(), false);
        assert_eq!(
            judged,
            Finish { verdict, message: message.clone(), failures: failures.clone() }
        );
        // A profile may allow files that were not copied, but no copy that gave up or was cancelled.
        let verdict = if ended.outcome == Outcome::Done { Success } else { judged.verdict };
        let judged = judge(&ended, failures.clone(), true);
        assert_eq!(judged, Finish { verdict, message, failures });
    }
}

#[test]
fn a_finished_status_keeps_start_and_progress_and_shows_100_percent_on_success() {
    let progress =
        Progress { files: 3, bytes: 2 * MIB, total: total(3, 2 * MIB), ..Progress::default() };
    let finish = |verdict| Finish::new(verdict, String::new());
    let before = running(&NnfDataMovementStatus::default(), None, at(5), 1);
    let reading = Reading { progress, at: at(7), began: at(6) };
    let success = finish(DataMovementVerdict::Success);
    let status = finished(&before, &success, Some(&reading), (at(7), 1), None);
    let command = &status.command_status;
    assert_eq!(
        (command.progress, &*command.last_message),
        (Some(100), "100 %, 2.0 MiB, 2.0 MiB/s")
    );
    assert_eq!((&*command.seconds, command.items, status.restarts), ("2.000", Some(3), 1));
    let bytes = i64::try_from(2 * MIB).unwrap();
    assert_eq!((command.bytes, command.total_bytes), (Some(bytes), Some(bytes)));
    assert_eq!(command.bytes_per_second, Some(bytes));
    assert_eq!((status.start_time, status.end_time), (Some(at(5).into()), Some(at(7).into())));
    let never = NnfDataMovementStatus::default();
    let cancelled = finish(DataMovementVerdict::Cancelled);
    let status = finished(&never, &cancelled, None, (at(9), 0), None);
    assert_eq!((status.start_time, status.end_time), (None, Some(at(9).into())));
    assert!(status.command_status.is_absent());
}

#[test]
fn a_waiting_status_has_the_reason_and_keeps_the_start_time() {
    let ran = running(&NnfDataMovementStatus::default(), None, at(5), 1);
    let status = waiting(&ran, "/lus/g is not mounted");
    assert_eq!(status.state, Some(DataMovementState::Starting));
    assert_eq!(
        (status.message.as_str(), status.start_time),
        ("/lus/g is not mounted", ran.start_time)
    );
}
