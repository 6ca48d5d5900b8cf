use std::time::Duration;

use super::*;

fn second(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn any(_: &&str) -> bool {
    true
}

#[test]
fn a_key_whose_retry_is_due_needs_no_timer_while_may_begin_is_false() {
    let now = Instant::now();
    let mut queue = Queue::new(8);
    queue.wake("a");
    queue.start(now, any);
    queue.finished(&"a", Retry::Soon, now);
    queue.wake("b");
    let later = now + second(2);
    assert_eq!(queue.start(later, |key| *key == "b"), ["b"]);
    assert_eq!(queue.deadline(), None, "the key waits for may_begin, not for a time");
    assert_eq!(queue.start(later, any), ["a"]);
}

#[test]
fn a_key_that_is_woken_during_work_is_handed_out_once_more() {
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
    assert_eq!(queue.deadline(), None, "an idle queue has no timer");
}

#[test]
fn a_wake_that_the_running_task_satisfies_is_withdrawn() {
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
        "the failed task is retried, although the wake was withdrawn"
    );
}

#[test]
fn no_more_tasks_run_in_parallel_than_the_limit() {
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
fn a_key_for_which_may_begin_is_false_waits_and_later_keys_start() {
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
fn delays_grow_with_each_failure_and_a_success_resets_them() {
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
fn a_key_that_is_woken_for_later_starts_once() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    queue.wake_later(&"a", now);
    assert!(queue.start(now, any).is_empty() && queue.deadline().is_some());
    assert_eq!(queue.start(now + second(2), any), ["a"]);
    queue.finished(&"a", Retry::OnChange, now);
    assert_eq!(queue.deadline(), None);
}

#[test]
fn wake_at_hands_a_key_out_at_its_time_or_at_an_earlier_retry() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    queue.wake_at(&"a", now + second(60), now);
    assert_eq!(queue.deadline(), Some(now + second(60)));
    assert!(queue.start(now + second(59), any).is_empty());
    assert_eq!(queue.start(now + second(60), any), ["a"]);
    queue.finished(&"a", Retry::Later, now);
    let retry = queue.deadline();
    queue.wake_at(&"a", now + second(60), now);
    assert_eq!(queue.deadline(), retry, "the retry is due earlier");
    queue.wake_at(&"a", now + second(1), now);
    assert_eq!(queue.start(now + second(1), any), ["a"]);
    queue.finished(&"a", Retry::OnChange, now);
    assert_eq!(queue.deadline(), None);
}

#[test]
fn a_wake_hands_out_a_key_that_waits_for_its_retry() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    queue.wake("a");
    queue.start(now, any);
    queue.finished(&"a", Retry::Later, now);
    queue.wake("a");
    assert_eq!(queue.start(now, any), ["a"]);
}

#[test]
fn a_key_that_is_woken_or_forgotten_during_work_is_superseded() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    queue.wake("a");
    queue.start(now, any);
    queue.wake("a");
    assert_eq!(queue.finished(&"a", Retry::Later, now), Standing::Superseded);
    assert_eq!(
        queue.start(now, any),
        ["a"],
        "a woken key does not wait for the delay of its retry"
    );
    assert_eq!(queue.finished(&"a", Retry::OnChange, now), Standing::Current);
    queue.wake("a");
    queue.start(now, any);
    queue.forget(&"a");
    assert_eq!(queue.finished(&"a", Retry::Soon, now), Standing::Superseded);
    assert!(queue.start(now + second(100), any).is_empty());
    assert_eq!(queue.deadline(), None);
}
