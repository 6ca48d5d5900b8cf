//! Remembers processes that survived SIGKILL, so that a retry does not add another hanging process.

use nix::unistd::Pid;
use parking_lot::Mutex;

use super::Cmd;
use crate::{
    Unended,
    hung::{self, Life},
};

static LEFT: Mutex<Vec<Left>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Left {
    command: Cmd,
    group: Pid,
    processes: Vec<Life>,
}

/// Remembers those processes of a killed command's group that have not ended.
pub(super) fn remember(command: &Cmd, group: Pid) {
    let processes = hung::members(group);
    if !processes.is_empty() {
        LEFT.lock().push(Left { command: command.clone(), group, processes });
    }
}

/// Describes where in the kernel an earlier run of the same command hangs; `None` once all processes of
/// that run have ended.
pub(super) fn waits(command: &Cmd) -> Option<String> {
    let mut left = LEFT.lock();
    left.retain(|left| left.processes.iter().any(Life::is_alive));
    let group = left.iter().find(|left| left.command == *command)?.group;
    drop(left);
    Some(hung::group(group))
}

/// Returns the processes of killed commands that have not ended, for commands whose text contains `part`.
pub fn unended(part: &str) -> Unended {
    let mut left = LEFT.lock();
    left.retain(|left| left.processes.iter().any(Life::is_alive));
    let found = left.iter().filter(|left| left.command.text.contains(part));
    let found: Vec<_> =
        found.map(|left| (left.command.text.clone(), left.group, left.processes.clone())).collect();
    drop(left);
    let name = |(command, group, _): &(String, Pid, Vec<Life>)| {
        format!("{command}, which has not ended: {}", hung::group(*group))
    };
    Unended {
        names: found.iter().map(name).collect(),
        processes: found.iter().flat_map(|(.., all)| all).map(|life| life.pid.as_raw()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use nix::unistd::getpgrp;

    use causes::CommandError;

    use super::*;

    /// The process of this test takes the place of a process that survived SIGKILL.
    #[test]
    fn a_command_is_not_repeated_while_its_process_lives() {
        let marks = tempfile::tempdir().unwrap();
        let mark = marks.path().join("mark");
        let touch = Cmd::new(["touch", mark.to_str().unwrap()]);
        remember(&touch, getpgrp());
        let error = touch.run(Duration::from_secs(60)).unwrap_err();
        let CommandError::TimedOut { waits, .. } = &error else { panic!("{error}") };
        assert!(waits.contains("process ") && waits.contains("SIGKILL did not end it"), "{waits}");
        assert!(!mark.exists(), "the command is not started again");
        assert!(unended(mark.to_str().unwrap()).names[0].contains("which has not ended"));
        assert!(unended("/another").names.is_empty());
        Cmd::new(["true"]).run(Duration::from_secs(60)).unwrap();
        touch.clone().for_owner("another").run(Duration::from_secs(60)).unwrap();
        fs::remove_file(&mark).unwrap();

        for left in LEFT.lock().iter_mut().filter(|left| left.command == touch) {
            left.processes = vec![Life { pid: Pid::this(), began: 0 }];
        }
        touch.run(Duration::from_secs(60)).unwrap();
        assert!(mark.exists(), "a later process with the same PID does not count");
    }
}
