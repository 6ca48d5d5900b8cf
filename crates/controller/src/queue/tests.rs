use std::time::Duration;

use super::*;

fn second(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn any(_: &&str) -> bool {
    true
}

#[test]
fn what_may_not_begin_waits_without_a_timer() {
    let now = Instant::now();
    let mut queue = Queue::new(8);
    queue.wake("a");
    queue.start(now, any);
    queue.finished(&"a", Retry::Soon, now);
    queue.wake("b");
    let later = now + second(2);
    assert_eq!(queue.start(later, |key| *key == "b"), ["b"]);
    assert_eq!(queue.deadline(), None, "time alone does not let it begin");
    assert_eq!(queue.start(later, any), ["a"]);
}

#[test]
fn a_wake_during_work_is_worked_on_once_more() {
    let now = Instant::now();
    let mut queue = Queue::new(8);
    queue.wake("a");
    assert_eq!(queue.start(now, any), ["a"]);
    queue.wake("a");
    assert!(queue.start(now, any).is_empty(), "one task per key");
    assert!(queue.is_running(&"a"));
    queue.finished(&"a", Retry::OnChange, now);
    assert!(!queue.is_running(&"a"));
    assert_eq!(queue.start(now, any), ["a"]);
    queue.finished(&"a", Retry::OnChange, now);
    assert!(queue.start(now, any).is_empty());
    assert_eq!(queue.deadline(), None, "at rest there is no timer");
}

#[test]
fn a_wake_for_what_was_just_done_is_over_with_it() {
    let now = Instant::now();
    let mut queue = Queue::new(8);
    queue.wake("a");
    queue.start(now, any);
    queue.wake("a");
    queue.satisfy(&"a");
    queue.finished(&"a", Retry::Soon, now);
    assert!(queue.start(now, any).is_empty());
    assert_eq!(
        queue.start(now + second(2), any),
        ["a"],
        "the queue hands out what failed all the same"
    );
}

#[test]
fn no_more_than_the_limit_run_side_by_side() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    for key in ["a", "b", "c"] {
        queue.wake(key);
    }
    assert_eq!(queue.start(now, any), ["a", "b"]);
    queue.finished(&"a", Retry::OnChange, now);
    assert_eq!(queue.start(now, any), ["c"]);
}

#[test]
fn of_one_kind_no_more_start_than_may_begin() {
    let now = Instant::now();
    let mut queue = Queue::new(8);
    for key in ["big-1", "big-2", "big-3", "small"] {
        queue.wake(key);
    }
    let mut big = 0;
    let started = queue.start(now, |key| {
        big += usize::from(key.starts_with("big"));
        !key.starts_with("big") || big <= 2
    });
    assert_eq!(started, ["big-1", "big-2", "small"]);
    queue.finished(&"big-1", Retry::OnChange, now);
    assert_eq!(queue.start(now, any), ["big-3"]);
}

#[test]
fn failures_wait_longer_each_time_and_a_success_forgets_them() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    queue.wake("a");
    queue.start(now, any);
    queue.finished(&"a", Retry::Soon, now);
    assert!(queue.start(now, any).is_empty());
    assert_eq!(queue.start(now + second(2), any), ["a"], "the first delay is 0.7 to 1.4 s");
    queue.finished(&"a", Retry::Soon, now);
    assert!(queue.start(now + second(1), any).is_empty(), "the second delay is 1.4 to 2.8 s");
    assert_eq!(queue.start(now + second(4), any), ["a"]);
    queue.finished(&"a", Retry::OnChange, now);
    assert_eq!(queue.deadline(), None);
}

#[test]
fn what_is_woken_for_later_starts_once_and_then_rests() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    queue.wake_later(&"a", now);
    assert!(queue.start(now, any).is_empty() && queue.deadline().is_some());
    assert_eq!(queue.start(now + second(2), any), ["a"]);
    queue.finished(&"a", Retry::OnChange, now);
    assert_eq!(queue.deadline(), None);
}

#[test]
fn what_is_to_be_looked_at_at_a_moment_waits_for_it_or_for_a_change() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    queue.wake_at(&"a", now + second(60), now);
    assert_eq!(queue.deadline(), Some(now + second(60)));
    assert!(queue.start(now + second(59), any).is_empty());
    assert_eq!(queue.start(now + second(60), any), ["a"]);
    queue.finished(&"a", Retry::Later, now);
    let retry = queue.deadline();
    queue.wake_at(&"a", now + second(60), now);
    assert_eq!(queue.deadline(), retry, "what failed is tried again before");
    queue.wake_at(&"a", now + second(1), now);
    assert_eq!(queue.start(now + second(1), any), ["a"]);
    queue.finished(&"a", Retry::OnChange, now);
    assert_eq!(queue.deadline(), None);
}

#[test]
fn a_change_ends_a_delay() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    queue.wake("a");
    queue.start(now, any);
    queue.finished(&"a", Retry::Later, now);
    queue.wake("a");
    assert_eq!(queue.start(now, any), ["a"]);
}

#[test]
fn what_changed_during_its_work_is_superseded_and_what_was_forgotten_too() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    queue.wake("a");
    queue.start(now, any);
    queue.wake("a");
    assert_eq!(queue.finished(&"a", Retry::Later, now), Standing::Superseded);
    assert_eq!(queue.start(now, any), ["a"], "a change does not wait");
    assert_eq!(queue.finished(&"a", Retry::OnChange, now), Standing::Current);
    queue.wake("a");
    queue.start(now, any);
    queue.forget(&"a");
    assert_eq!(queue.finished(&"a", Retry::Soon, now), Standing::Superseded);
    assert!(queue.start(now + second(100), any).is_empty());
    assert_eq!(queue.deadline(), None);
}
