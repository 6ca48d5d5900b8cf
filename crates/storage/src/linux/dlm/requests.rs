//! Parses the lock manager's tables in debugfs (Linux fs/dlm/debug_fs.c). Pure.

use std::time::Duration;

use procfs::process::Process;

/// A line of `<lock space>_locks`: a lock of this node or, where this node is the resource's master, of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lock {
    /// The number of the other node, 0 for a lock of our own.
    node: i32,
    /// The process that requested it, on the lock's node.
    pid: i32,
    status: Status,
    granted: i32,
    wanted: i32,
    pub(super) waits: Duration,
    /// The master node of the resource; 0 for this one.
    master: i64,
    resource: String,
}

/// The queue that a lock is in (DLM_LKSTS_*, fs/dlm/dlm_internal.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Waiting,
    Granted,
    Converting,
    /// In no queue: the master has not answered yet.
    None,
}

impl Lock {
    fn is_of_another(&self) -> bool {
        self.master == 0 && self.node != 0
    }

    /// Whether this node requested it and does not have it.
    pub(super) fn is_wanted_here(&self) -> bool {
        !self.is_of_another() && matches!(self.status, Status::Waiting | Status::Converting)
    }

    /// Describes the request and who blocks it, as far as this node knows: only the master of a resource knows all
    /// holders.
    pub(super) fn describe(&self, space: &str, all: &[Lock]) -> String {
        let (resource, wanted, age) = (&self.resource, mode(self.wanted), age(self.waits));
        let instead = match self.status {
            Status::Converting => format!(" instead of {}", mode(self.granted)),
            Status::Waiting | Status::Granted | Status::None => String::new(),
        };
        let asked = self.asked_by();
        let holders = match self.master {
            0 => self.holders(all),
            -1 => "which node decides is not known yet".to_owned(),
            node => format!("node {node} decides"),
        };
        format!(
            "lock {resource:?} of lock space {space} is wanted {wanted}{instead} by {asked} for {age}, {holders}"
        )
    }

    fn asked_by(&self) -> String {
        let name = Process::new(self.pid).and_then(|process| process.stat()).map(|stat| stat.comm);
        match name {
            Ok(name) => format!("process {} ({name})", self.pid),
            Err(_) => format!("process {}", self.pid),
        }
    }

    fn holders(&self, all: &[Lock]) -> String {
        let has = |lock: &&Lock| matches!(lock.status, Status::Granted | Status::Converting);
        let others = all.iter().filter(|lock| lock.resource == self.resource && *lock != self);
        let held: Vec<_> = others
            .filter(has)
            .map(|holder| match holder.node {
                0 => format!("{} by process {} here", mode(holder.granted), holder.pid),
                node => format!("{} by node {node}", mode(holder.granted)),
            })
            .collect();
        if held.is_empty() {
            "held by nobody".to_owned()
        } else {
            format!("held {}", held.join(", "))
        }
    }
}

/// `id nodeid remid pid xid exflags flags sts grmode rqmode time_us r_nodeid r_len "r_name"` a line, under a header.
pub(super) fn understand(table: &str) -> Result<Vec<Lock>, String> {
    let lines = table.lines().filter(|line| !line.starts_with("id ") && !line.is_empty());
    lines.map(|line| lock(line).ok_or_else(|| format!("{line:?} is no lock"))).collect()
}

fn lock(line: &str) -> Option<Lock> {
    // A resource's name may have spaces in it: GFS2's are numbers with leading ones.
    let (numbers, name) = line.split_once('"')?;
    let fields: Vec<_> = numbers.split_whitespace().collect();
    let [_, node, _, pid, _, _, _, status, granted, wanted, micros, master, _] = fields[..] else {
        return None;
    };
    Some(Lock {
        node: node.parse().ok()?,
        pid: pid.parse().ok()?,
        status: match status {
            "1" => Status::Waiting,
            "2" => Status::Granted,
            "3" => Status::Converting,
            _ => Status::None,
        },
        granted: granted.parse().ok()?,
        wanted: wanted.parse().ok()?,
        waits: Duration::from_micros(micros.parse().ok()?),
        // Printed as unsigned, and -1 while it is not known.
        master: i64::from(master.parse::<u32>().ok()?.cast_signed()),
        resource: name.strip_suffix('"')?.trim().to_owned(),
    })
}

/// A line of `<lock space>_waiters`: a message to another node without an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    lock: String,
    node: i32,
    resource: String,
}

impl Waiter {
    pub(super) fn describe(&self, space: &str) -> String {
        let Self { lock, node, resource } = self;
        format!("node {node} has not answered for lock {resource:?} ({lock}) of lock space {space}")
    }
}

/// `id wait_type nodeid name` a line.
pub(super) fn waiters(table: &str) -> Result<Vec<Waiter>, String> {
    let waiter = |line: &str| {
        let mut fields = line.splitn(4, ' ');
        let (lock, _) = (fields.next()?.to_owned(), fields.next()?);
        let node = fields.next()?.parse().ok()?;
        Some(Waiter { lock, node, resource: fields.next()?.trim().to_owned() })
    };
    let lines = table.lines().filter(|line| !line.is_empty());
    lines.map(|line| waiter(line).ok_or_else(|| format!("{line:?} is no waiter"))).collect()
}

/// A hang is reported repeatedly. A rounded age keeps the text the same, so that it does not change the status each
/// time.
fn age(waits: Duration) -> &'static str {
    match waits.as_secs() {
        0..10 => "less than 10 s",
        10..60 => "more than 10 s",
        60..600 => "more than a minute",
        600..3600 => "more than 10 minutes",
        3600..86_400 => "more than an hour",
        _ => "more than a day",
    }
}

/// Modes by number (include/uapi/linux/dlmconstants.h).
fn mode(number: i32) -> &'static str {
    match number {
        0 => "NL",
        1 => "CR",
        2 => "CW",
        3 => "PR",
        4 => "PW",
        5 => "EX",
        _ => "nothing",
    }
}

/// In the kernel's format: this node is the master and asked for `VGLK`, which node 2 has; its own lock on `GBLK` is granted.
#[cfg(test)]
pub(super) const RECORDED: &str = "\
id nodeid remid pid xid exflags flags sts grmode rqmode time_ms r_nodeid r_len r_name
1 2 3 4711 0 0 10000 2 5 -1 90412345 0 8 \"VGLK\"
2 0 0 812 0 4 0 1 -1 5 31000001 0 8 \"VGLK\"
3 0 0 812 0 4 0 2 3 -1 120000000 0 8 \"GBLK\"
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_node_waits_for_is_told_with_who_has_it() {
        let all = understand(RECORDED).unwrap();
        let wanted: Vec<_> = all.iter().filter(|lock| lock.is_wanted_here()).collect();
        let [wanted] = wanted[..] else { panic!("{wanted:?}") };
        let text = wanted.describe("lvm_a", &all);
        assert!(text.starts_with("lock \"VGLK\" of lock space lvm_a is wanted EX by process 812"));
        assert!(text.ends_with("for more than 10 s, held EX by node 2"), "{text}");
    }

    /// GFS2's inode glock 2/5, whose master is node 2; converted from shared to exclusive.
    #[test]
    fn another_master_is_named() {
        let line = "10a 2 30b 0 0 5 0 3 3 5 2500000 2 24 \"       2               5\"\n";
        let all = understand(line).unwrap();
        assert!(all[0].is_wanted_here());
        let text = all[0].describe("job1", &all);
        assert!(text.contains("lock \"2               5\" of lock space job1"), "{text}");
        assert!(text.contains("wanted EX instead of PR") && text.ends_with("node 2 decides"));
    }

    #[test]
    fn a_request_of_another_node_is_not_ours() {
        let line = "1 2 3 4711 0 0 10000 1 -1 5 90412345 0 8 \"VGLK\"";
        assert!(!understand(line).unwrap()[0].is_wanted_here());
    }

    #[test]
    fn a_master_that_is_not_known_yet_is_read() {
        let line = "1 -1 0 12 0 0 0 1 -1 5 90 4294967295 8 \"VGLK\"";
        assert_eq!(understand(line).unwrap()[0].master, -1);
    }

    #[test]
    fn what_the_kernel_never_wrote_is_an_error() {
        assert!(understand("1 2 3").unwrap_err().contains("is no lock"));
        assert!(waiters("2000a x").unwrap_err().contains("is no waiter"));
        assert_eq!(understand("").unwrap(), []);
    }

    #[test]
    fn an_unanswered_message_is_told_with_its_node() {
        let text = waiters("2000a 1 2 GBLK\n").unwrap()[0].describe("lvm_a");
        assert_eq!(text, "node 2 has not answered for lock \"GBLK\" (2000a) of lock space lvm_a");
    }
}
