//! Tests that a panic of a vital task or thread ends the daemon.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{os::unix::process::ExitStatusExt, process::Output, time::Duration};

use daemon::{End, LogArgs, Threads, run, vital, vital_now};

const PANICS: &str = "DAEMON_PANICS";

/// Longer than a panic takes to end a process.
const LONG: Duration = Duration::from_secs(60);

async fn a_bug() {
    // Panics in a later poll than the first.
    tokio::task::yield_now().await;
    panic!("a bug");
}

/// Not a test: the daemon that the test below starts.
#[test]
#[ignore = "the daemon process that another test starts"]
fn a_daemon_with_a_bug() {
    let Ok(place) = std::env::var(PANICS) else { return };
    std::thread::spawn(|| {
        std::thread::park_timeout(LONG);
        // The daemon still runs, without the part that panicked.
        std::process::exit(9)
    });
    let logs = LogArgs { log_level: log::LevelFilter::Info };
    let end = run(&logs, Threads::One, Ok::<_, std::io::Error>(()), |()| async move {
        match place.as_str() {
            "task" => drop(tokio::spawn(vital("a task", a_bug()))),
            "thread" => drop(std::thread::spawn(|| vital_now("a thread", || panic!("a bug")))),
            // Dropping the runtime would wait for this thread.
            "main" => {
                drop(tokio::task::spawn_blocking(std::thread::park));
                a_bug().await;
            }
            _ => return Ok::<_, std::io::Error>(End::Stopped),
        }
        std::future::pending().await
    });
    assert_eq!(end, std::process::ExitCode::SUCCESS);
}

fn a_daemon_that_panics_in(place: &str) -> Output {
    #[expect(clippy::disallowed_methods, reason = "a test harness that starts itself")]
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let arguments = ["--exact", "a_daemon_with_a_bug", "--ignored", "--nocapture"];
    command.args(arguments).env(PANICS, place).output().unwrap()
}

#[test]
fn a_panic_of_a_vital_task_ends_the_process_and_is_logged() {
    for (place, name) in
        [("task", "a task"), ("thread", "a thread"), ("main", "the daemon's main task")]
    {
        let output = a_daemon_that_panics_in(place);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(6), "{place}: {output:?}");
        assert!(
            stderr.contains("a bug") && stderr.contains(&format!("{name} panicked")),
            "{stderr}"
        );
    }
    assert!(a_daemon_that_panics_in("nowhere").status.success());
}
