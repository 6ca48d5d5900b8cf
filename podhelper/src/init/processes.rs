//! Finds the descendants of a process in `/proc`.

use std::{collections::BTreeMap, io};

use nix::unistd::Pid;
use procfs::process::all_processes;

/// Returns all descendants of a process, except zombies.
pub(super) fn descendants(first: Pid) -> io::Result<Vec<Pid>> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    // A process that ended meanwhile has no files.
    let processes = all_processes().map_err(io::Error::other)?;
    for stat in processes.filter_map(|process| process.ok()?.stat().ok()) {
        // A zombie only needs reaping.
        if !matches!(stat.state, 'Z' | 'X') {
            children.entry(stat.ppid).or_default().push(stat.pid);
        }
    }
    let (mut found, mut next) = (Vec::new(), vec![first.as_raw()]);
    while let Some(process) = next.pop() {
        let own = children.remove(&process).unwrap_or_default();
        found.extend(own.iter().copied().map(Pid::from_raw));
        next.extend(own);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use nix::unistd::getpid;

    use super::*;

    #[test]
    fn children_and_their_children_are_descendants() {
        #[expect(clippy::disallowed_methods, reason = "a process to be found")]
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 1000 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = shell.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        let child = Pid::from_raw(line.trim().parse().unwrap());
        let shell_process = Pid::from_raw(shell.id().cast_signed());
        let all = descendants(getpid()).unwrap();
        assert!(all.contains(&shell_process) && all.contains(&child), "{all:?}");
        assert_eq!(descendants(shell_process).unwrap(), [child]);
        assert!(descendants(child).unwrap().is_empty());
        nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL).unwrap();
        shell.wait().unwrap();
    }
}
