//! Tests that an observation writes nothing: strace(1) traces the system calls of this process meanwhile.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use storage::{Desired, desired::IndexTree};

use crate::{
    by_hand::start,
    lab::with_only_lab,
    scenarios::{World, create_file_system, mount_of, settle},
};

/// Calls that can change a file, a device, a mount or another process's files.
const CALLS: &str = "open,openat,openat2,creat,write,pwrite64,writev,pwritev,pwritev2,sendfile,copy_file_range,\
    truncate,ftruncate,fallocate,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat,symlink,\
    symlinkat,mknod,mknodat,chmod,fchmod,fchmodat,chown,fchown,fchownat,lchown,setxattr,fsetxattr,lsetxattr,\
    removexattr,utimensat,mount,umount2,fsmount,move_mount,mount_setattr,ioctl,execve";

/// Files that the test opens before and after the observations, to find their part of the trace.
const MARKS: [&str; 2] = ["/observations-begin", "/observations-end"];

/// Returns the traced calls between the two marks.
fn traced(trace: &Path, observe: impl FnOnce()) -> Vec<String> {
    let (pid, to) = (std::process::id().to_string(), trace.to_str().unwrap());
    let script = format!("exec strace -f -p {pid} -o {to} -e trace={CALLS} 2>&1");
    let mut strace = start("sh", &["-c", &script]);
    // strace reports each new thread. A closed pipe would end it.
    let (mut messages, mut line) = (BufReader::new(strace.stdout.take().unwrap()), String::new());
    messages.read_line(&mut line).unwrap();
    assert!(line.contains("attached"), "{line}");
    fs::read(MARKS[0]).unwrap_err();
    observe();
    fs::read(MARKS[1]).unwrap_err();
    kill(Pid::from_raw(strace.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    strace.wait().unwrap();
    let text = fs::read_to_string(trace).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let place = |mark| lines.iter().position(|line| line.contains(mark));
    let [Some(begin), Some(end)] = MARKS.map(place) else {
        panic!("no marks in the trace: {text}")
    };
    lines[begin + 1..end].iter().map(|line| (*line).to_owned()).collect()
}

/// Returns whether a call only reads: it opens a file for reading, or it writes to stdout or stderr.
fn only_reads(call: &str) -> bool {
    let call = call.trim_start_matches(|digit: char| digit.is_ascii_digit() || digit == ' ');
    let writes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"];
    let is_read = |flag: &str| !call.contains(flag);
    match call.split('(').next() {
        Some("open" | "openat" | "openat2") => writes.iter().all(|flag| is_read(flag)),
        Some("write" | "writev") => call.contains("(1, ") || call.contains("(2, "),
        _ => call.starts_with("+++") || call.starts_with("---") || call.contains("resumed>"),
    }
}

#[test]
fn an_observation_writes_nothing() {
    with_only_lab(|lab| {
        let (_, fs) = create_file_system(lab, 0);
        let (_, unmounted) = create_file_system(lab, 1);
        let mount = mount_of(&fs, lab.point("a"));
        settle(&lab.rabbit(), &Desired::Mounted(mount.clone()));
        let rabbit = lab.rabbit();
        let units = [
            Desired::Inventory,
            Desired::Mounted(mount.clone()),
            Desired::Unmounted(mount),
            Desired::Mounted(mount_of(&unmounted, lab.point("b"))),
            Desired::FileSystemReady(unmounted.clone()),
            Desired::FileSystemGone(unmounted),
            Desired::OnlyMounts(Vec::new()),
            Desired::IndexTree(IndexTree { root: lab.point("tree"), links: Vec::new() }),
        ];
        let calls = traced(&lab.path().join("trace"), || {
            for unit in &units {
                rabbit.observe(unit).unwrap();
            }
        });
        let opened = calls.iter().filter(|call| call.contains("open")).count();
        assert!(opened >= units.len(), "the observations were traced: {calls:?}");
        let changes: Vec<_> = calls.iter().filter(|call| !only_reads(call)).collect();
        assert!(changes.is_empty(), "{changes:#?}");

        let calls = traced(&lab.path().join("trace"), || {
            settle(&rabbit, &units[2]);
        });
        assert!(calls.iter().any(|call| call.contains("umount")), "a step is traced: {calls:#?}");
    });
}
