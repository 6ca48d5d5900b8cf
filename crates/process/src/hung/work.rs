//! Describes what a program with many threads and files works on.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use nix::unistd::Pid;
use procfs::process::{FDTarget, Process, all_processes};

use super::{is_member, place};

/// Maximum number of open files in a message.
const FILES: usize = 4;

/// Describes the processes of a process group (setpgid(2)): where their threads wait in the kernel, and the files and
/// directories that they have open. This reads only /proc: no file system that hangs is touched.
/// Leaves out files beneath `hidden`.
pub(crate) fn group(group: Pid, hidden: &Path) -> String {
    let all = match all_processes() {
        Ok(all) => all,
        Err(error) => return format!("the processes of group {group} cannot be listed: {error}"),
    };
    let members = all.flatten().filter(|process| is_member(process, group));
    members.map(|process| describe(&process, hidden)).collect::<Vec<_>>().join("; ")
}

fn describe(process: &Process, hidden: &Path) -> String {
    let name = process.stat().map(|stat| stat.comm).unwrap_or_default();
    let threads = threads(process);
    let mut files = files(process, hidden).into_iter();
    let shown: Vec<String> = files.by_ref().take(FILES).collect();
    let more = match files.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let open =
        if shown.is_empty() { String::new() } else { format!("; open: {}", shown.join(", ")) };
    format!("process {} ({name}): {threads}{open}{more}", process.pid)
}

/// Describes the places in the kernel where threads wait, each with the number of threads.
fn threads(process: &Process) -> String {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for task in process.tasks().into_iter().flatten().flatten() {
        let read =
            |file| fs::read_to_string(format!("/proc/{}/task/{}/{file}", task.pid, task.tid));
        *places.entry(place(read("stack"), read("wchan"))).or_default() += 1;
    }
    let texts = places.iter().map(|(place, count)| format!("threads: {count}{place}"));
    texts.collect::<Vec<_>>().join("; ")
}

/// Returns the paths of open files and directories, without devices.
fn files(process: &Process, hidden: &Path) -> BTreeSet<String> {
    let open = process.fd().into_iter().flatten().flatten();
    let paths = open.filter_map(|file| match file.target {
        FDTarget::Path(path) if !path.starts_with("/dev") && !path.starts_with(hidden) => {
            Some(causes::escaped(&path.to_string_lossy(), ""))
        }
        _ => None,
    });
    paths.collect()
}
