//! Describes the locks of the distributed lock manager (DLM) that this node requested and was not granted.

mod requests;

use std::{
    fs,
    io::{self, ErrorKind},
    path::Path,
};

use self::requests::{Lock, parse_locks, parse_waiters};

/// Maximum number of requests that a message names; the message only counts further requests.
const NAMED: usize = 4;
/// Status bit of a lock space whose recovery is complete (DLM_RS_DONE, Linux fs/dlm/dlm_internal.h).
const RECOVERED: u32 = 0x40;

/// Returns the lock spaces that this node has joined.
///
/// # Errors
/// When /sys/kernel/dlm exists and cannot be read.
pub fn lock_spaces() -> io::Result<Vec<String>> {
    spaces(Path::new("/sys/kernel/dlm"))
}

/// Describes every lock that this node requested and was not granted, the oldest request first, and every lock space
/// that grants no locks. The result is empty on a node that has joined no lock space.
pub(super) fn ungranted() -> Vec<String> {
    ungranted_in(Path::new("/sys/kernel/dlm"), Path::new("/sys/kernel/debug/dlm"))
}

fn spaces(sysfs: &Path) -> io::Result<Vec<String>> {
    // The directory is missing when the dlm module is not loaded.
    let listed = match fs::read_dir(sysfs) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let names = listed.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

fn ungranted_in(sysfs: &Path, debugfs: &Path) -> Vec<String> {
    let spaces = match spaces(sysfs) {
        Ok(spaces) => spaces,
        Err(error) => return vec![format!("{} cannot be read: {error}", sysfs.display())],
    };
    let mut lines = Vec::new();
    for space in spaces {
        lines.extend(
            recovery(&sysfs.join(&space)).map(|state| format!("lock space {space} {state}")),
        );
        match locks(debugfs, &space) {
            Ok(locks) => lines.extend(locks),
            Err(why) => lines.push(format!("locks of lock space {space} cannot be read: {why}")),
        }
    }
    lines
}

/// Describes why a lock space grants no locks; `None` when it grants locks. The status of a lock space is 0 from the
/// loss of a node until dlm_controld lets the lock space continue (dlm_ls_stop, fs/dlm/member.c).
fn recovery(space: &Path) -> Option<String> {
    let text = match fs::read_to_string(space.join("recover_status")) {
        Ok(text) => text,
        Err(error) => return Some(format!("has an unreadable recover_status: {error}")),
    };
    match u32::from_str_radix(text.trim(), 16) {
        Ok(0) => Some(
            "is stopped: dlm_controld waits for quorum or for a node to be fenced, see dlm_tool status"
                .to_owned(),
        ),
        Ok(status) if status & RECOVERED == 0 => {
            Some(format!("is being recovered (status {status:x}), see dlm_tool ls"))
        }
        Ok(_) => None,
        Err(_) => Some(format!("has the malformed recover_status {text:?}")),
    }
}

/// Describes the lock requests of one lock space.
fn locks(debugfs: &Path, space: &str) -> Result<Vec<String>, String> {
    let read = |table: &str| {
        let path = debugfs.join(format!("{space}_{table}"));
        let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(String::from_utf8_lossy(&text).into_owned())
    };
    let locks = parse_locks(&read("locks")?)?;
    let mut wanted: Vec<&Lock> = locks.iter().filter(|lock| lock.is_ungranted_request()).collect();
    wanted.sort_by_key(|lock| std::cmp::Reverse(lock.waits));
    let more = wanted.len().saturating_sub(NAMED);
    let mut lines: Vec<_> =
        wanted.iter().take(NAMED).map(|lock| lock.describe(space, &locks)).collect();
    lines.extend((more > 0).then(|| format!("and {more} more locks of lock space {space}")));
    let unanswered = parse_waiters(&read("waiters")?)?;
    lines.extend(unanswered.iter().take(NAMED).map(|waiter| waiter.describe(space)));
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(root: &Path, name: &str, status: &str) {
        let space = root.join("sys").join(name);
        fs::create_dir_all(&space).unwrap();
        fs::write(space.join("recover_status"), status).unwrap();
    }

    fn lines(root: &Path) -> Vec<String> {
        ungranted_in(&root.join("sys"), &root.join("debug"))
    }

    #[test]
    fn a_node_in_no_lock_space_has_no_ungranted_locks() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(lines(root.path()), [""; 0]);
    }

    #[test]
    fn ungranted_locks_and_unanswered_messages_are_listed() {
        let root = tempfile::tempdir().unwrap();
        space(root.path(), "lvm_a4f0_0", "ff\n");
        let debug = root.path().join("debug");
        fs::create_dir(&debug).unwrap();
        fs::write(debug.join("lvm_a4f0_0_locks"), requests::RECORDED).unwrap();
        fs::write(debug.join("lvm_a4f0_0_waiters"), "2000a 1 2 GBLK\n").unwrap();
        let lines = lines(root.path());
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].contains("\"VGLK\"") && lines[0].contains("held in mode EX by node 2"),
            "{lines:?}"
        );
        assert!(lines[1].contains("GBLK") && lines[1].contains("node 2"), "{lines:?}");
    }

    #[test]
    fn a_stopped_lock_space_is_listed_even_when_its_locks_cannot_be_read() {
        let root = tempfile::tempdir().unwrap();
        space(root.path(), "a", "0\n");
        space(root.path(), "b", "3f\n");
        let lines = lines(root.path());
        assert!(lines[0].starts_with("lock space a is stopped: dlm_controld waits"), "{lines:?}");
        assert!(lines[1].starts_with("locks of lock space a cannot be read: "), "{lines:?}");
        assert!(lines[2].starts_with("lock space b is being recovered (status 3f)"), "{lines:?}");
    }
}
