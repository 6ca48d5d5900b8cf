//! Who descends from a process, as `/proc` says.

use std::{collections::BTreeMap, fs, io};

use nix::unistd::Pid;

/// All that live beneath a process.
pub(super) fn beneath(first: Pid) -> io::Result<Vec<Pid>> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(entry) = entry else { continue };
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // One that ended meanwhile has no file.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent(&stat) {
            children.entry(parent).or_default().push(process);
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

/// The parent of a process that lives, by its line in `/proc`. The name, in parentheses, may have any character.
fn parent(stat: &str) -> Option<i32> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.next()?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::getpid;

    use super::*;

    #[test]
    fn a_line_of_proc_says_the_parent_of_who_lives() {
        assert_eq!(parent("7 (sh) S 3 7 7 0 -1"), Some(3));
        assert_eq!(parent("7 (a) Z b) R 4 7 7 0 -1"), Some(4), "its name is \"a) Z b\"");
        assert_eq!(parent("7 (sh) Z 3 7 7 0 -1"), None, "it only has to be reaped");
        assert_eq!(parent(""), None, "it is gone");
    }

    #[test]
    fn children_and_their_children_are_beneath() {
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
        let of_shell = Pid::from_raw(shell.id().cast_signed());
        let all = beneath(getpid()).unwrap();
        assert!(all.contains(&of_shell) && all.contains(&child), "{all:?}");
        assert_eq!(beneath(of_shell).unwrap(), [child]);
        assert!(beneath(child).unwrap().is_empty());
        nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL).unwrap();
        shell.wait().unwrap();
    }
}
