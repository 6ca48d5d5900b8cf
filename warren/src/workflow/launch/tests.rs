use std::sync::Mutex;

use super::*;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

fn job(nodes: &[&str]) -> Job {
    Job {
        nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        environment: [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "x y".to_owned())].into(),
        user: 7,
        group: 8,
        command: vec!["app".to_owned(), "-v {node}".to_owned()],
    }
}

fn launch_lines(line: Option<&str>) -> Vec<String> {
    let launcher = line.map(|line| line.parse::<Launcher>().unwrap());
    let launches = launches(launcher.as_ref(), &job(&["c1", "c2", "c4"]));
    launches
        .iter()
        .map(|launch| {
            format!("{} {}", launch.node.as_deref().unwrap_or("-"), launch.words.join("|"))
        })
        .collect()
}

#[test]
fn a_launcher_line_starts_the_command_once_or_for_each_node() {
    assert_eq!(launch_lines(None), ["- app|-v {node}"]);
    assert_eq!(
        launch_lines(Some("srun -w {nodes} --uid={user}")),
        ["- srun|-w|c[1-2,4]|--uid=7|app|-v {node}"]
    );
    assert_eq!(
        launch_lines(Some("ssh '{node}' env {env}")),
        ["c1", "c2", "c4"].map(|node| format!("{node} ssh|{node}|env|A=1|B=x y|app|-v {{node}}"))
    );
}

#[test]
fn an_invalid_launcher_is_refused() {
    for (line, error) in [
        ("ssh '{node}", LauncherError::Quotes),
        ("  ", LauncherError::Empty),
        ("run {node} {nodes}", LauncherError::Both),
    ] {
        assert_eq!(line.parse::<Launcher>(), Err(error), "{line}");
    }
}

#[test]
fn a_missing_or_non_executable_program_is_refused() {
    let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
    let status = |launcher: Option<&str>, command: &str| {
        let launcher = launcher.map(|line| line.parse::<Launcher>().unwrap());
        check_program(launcher.as_ref(), &words(command)).map_err(|error| error.status())
    };
    assert_eq!(status(None, "sh -c true"), Ok(()));
    assert_eq!(status(None, "/bin/sh -c true"), Ok(()));
    assert_eq!(status(None, "no-such-command-of-warren"), Err(127));
    assert_eq!(status(None, "/no/such/command"), Err(127));
    assert_eq!(status(None, "/etc/passwd"), Err(126));
    assert_eq!(status(None, "/etc"), Err(126));
    assert_eq!(status(Some("sh {node}"), "only-there"), Ok(()), "the command runs on another host");
    assert_eq!(status(Some("no-such-launcher {node}"), "true"), Err(127));
}

fn sh(script: &str) -> Launch {
    Launch { node: None, words: ["sh", "-c", script].map(str::to_owned).to_vec() }
}

/// Serializes these tests: stopping commands ends every process that this test process has started.
static ALONE: Mutex<()> = Mutex::new(());

fn statuses(scripts: &[&str]) -> u8 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let started = scripts.iter().map(|script| start(sh(script), &job(&[]), false).unwrap());
        let mut running: Vec<_> = started.collect();
        exit_status(&wait(&mut running).await)
    })
}

#[test]
fn the_exit_status_is_the_status_of_the_first_failed_program() {
    let _alone = ALONE.lock();
    assert_eq!(statuses(&["exit 0", "true"]), 0);
    assert_eq!(statuses(&["exit 0", "exit 42", "exit 7"]), 42);
    assert_eq!(statuses(&["kill -9 $$"]), 137);
    assert_eq!(statuses(&["test \"$A$B\" = '1x y'"]), 0);
}

#[test]
fn a_stopped_command_can_clean_up() {
    let _alone = ALONE.lock();
    let directory = tempfile::tempdir().unwrap();
    let (ready, cleaned) = (directory.path().join("ready"), directory.path().join("cleaned"));
    mkfifo(&ready, Mode::S_IRWXU).unwrap();
    let script = format!(
        "trap 'touch {}; exit 3' TERM; echo > {}; while :; do sleep 0.1; done",
        cleaned.display(),
        ready.display()
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut running = vec![start(sh(&script), &job(&[]), false).unwrap()];
        // The pipe opens when the script has set its trap.
        tokio::fs::read(&ready).await.unwrap();
        stop(&mut running, GRACE).await;
        assert_eq!(exit_status(&wait(&mut running).await), 3);
    });
    assert!(cleaned.exists());
}

/// The script starts a background process, a process whose parent has ended, a process in a terminal session of its
/// own, and a process that ignores SIGTERM.
#[test]
fn all_descendants_of_a_stopped_command_end() {
    let _alone = ALONE.lock();
    let directory = tempfile::tempdir().unwrap();
    let (ready, alive) = (directory.path().join("ready"), directory.path().join("alive"));
    mkfifo(&ready, Mode::S_IRWXU).unwrap();
    mkfifo(&alive, Mode::S_IRWXU).unwrap();
    // Each of these processes holds the pipe open for writing until it ends.
    let script = format!(
        "exec 3> {}
         sleep 1000 &
         (sleep 1000 &)
         setsid -f sleep 1000
         (trap '' TERM; echo > {}; exec sleep 1000) &
         wait",
        alive.display(),
        ready.display()
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut running = vec![start(sh(&script), &job(&[]), false).unwrap()];
        let pipe = tokio::task::spawn_blocking(move || std::fs::read(alive));
        tokio::fs::read(&ready).await.unwrap();
        stop(&mut running, Duration::from_secs(1)).await;
        let all_ended = timeout(Duration::from_secs(60), pipe).await;
        assert!(all_ended.expect("a process of the command runs").unwrap().unwrap().is_empty());
    });
}
