//! Parses the lock manager's tables in debugfs (Linux fs/dlm/debug_fs.c). Does no I/O.

use std::time::Duration;

use procfs::process::Process;

/// A line of `<lock space>_locks`. It describes a lock that this node requested or, if this node is the resource's
/// master, a lock that another node requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lock {
    /// Number of the node that requested the lock; 0 for this node.
    node: i32,
    /// The process that requested the lock, on `node`.
    pid: i32,
    status: Status,
    granted: i32,
    wanted: i32,
    pub(super) waits: Duration,
    /// The master node of the resource; 0 for this node.
    master: i64,
    resource: String,
}

/// The queue that a lock is in (DLM_LKSTS_*, fs/dlm/dlm_internal.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Waiting,
    Granted,
    Converting,
    /// The lock is in no queue, because the master has not answered yet.
    None,
}

impl Lock {
    fn is_of_other_node(&self) -> bool {
        self.master == 0 && self.node != 0
    }

    /// Returns whether this node requested the lock and the master has not granted it.
    pub(super) fn is_ungranted_request(&self) -> bool {
        !self.is_of_other_node() && matches!(self.status, Status::Waiting | Status::Converting)
    }

    /// Describes the request and the locks that block it, as far as this node knows them: only the master of a resource
    /// knows all of its locks.
    pub(super) fn describe(&self, space: &str, all: &[Lock]) -> String {
        let (resource, wanted, age) = (&self.resource, mode(self.wanted), age(self.waits));
        let instead = match self.status {
            Status::Converting => format!(" (instead of {})", mode(self.granted)),
            Status::Waiting | Status::Granted | Status::None => String::new(),
        };
        let requester = self.requester();
        let holders = match self.master {
            0 => self.holders(all),
            -1 => "the node that decides about the lock is not known yet".to_owned(),
            node => format!("node {node} decides about the lock"),
        };
        format!(
            "lock {resource:?} of lock space {space} was requested in mode {wanted}{instead} by {requester} {age} ago; {holders}"
        )
    }

    fn requester(&self) -> String {
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
                0 => format!("{} by process {} on this node", mode(holder.granted), holder.pid),
                node => format!("{} by node {node}", mode(holder.granted)),
            })
            .collect();
        if held.is_empty() {
            "this node knows no holder of the lock".to_owned()
        } else {
            format!("the lock is held in mode {}", held.join(", "))
        }
    }
}

/// Parses `<lock space>_locks`: a header, then `id nodeid remid pid xid exflags flags sts grmode rqmode time_us
/// r_nodeid r_len "r_name"` on each line.
pub(super) fn parse_locks(table: &str) -> Result<Vec<Lock>, String> {
    let lines = table.lines().filter(|line| !line.starts_with("id ") && !line.is_empty());
    lines.map(|line| lock(line).ok_or_else(|| format!("{line:?} is no lock"))).collect()
}

fn lock(line: &str) -> Option<Lock> {
    // A resource's name may contain spaces: the names of GFS2 are numbers with leading spaces.
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
        // The kernel prints the number as unsigned; it is -1 while the master is not known.
        master: i64::from(master.parse::<u32>().ok()?.cast_signed()),
        resource: name.strip_suffix('"')?.trim().to_owned(),
    })
}

/// A line of `<lock space>_waiters`: a message that another node has not answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    lock: String,
    node: i32,
    resource: String,
}

impl Waiter {
    pub(super) fn describe(&self, space: &str) -> String {
        let Self { lock, node, resource } = self;
        format!(
            "node {node} has not answered a request for lock {resource:?} ({lock}) of lock space {space}"
        )
    }
}

/// Parses `<lock space>_waiters`: `id wait_type nodeid name` on each line.
pub(super) fn parse_waiters(table: &str) -> Result<Vec<Waiter>, String> {
    let waiter = |line: &str| {
        let mut fields = line.splitn(4, ' ');
        let (lock, _) = (fields.next()?.to_owned(), fields.next()?);
        let node = fields.next()?.parse().ok()?;
        Some(Waiter { lock, node, resource: fields.next()?.trim().to_owned() })
    };
    let lines = table.lines().filter(|line| !line.is_empty());
    lines.map(|line| waiter(line).ok_or_else(|| format!("{line:?} is no waiter"))).collect()
}

/// Rounds the age of a request. The description of a hang is reported repeatedly; an exact age would change the
/// object's status each time.
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

/// Returns the name of a lock mode (include/uapi/linux/dlmconstants.h).
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

/// A table in the kernel's format. This node is the master of `VGLK` and requested it, but node 2 holds it; on `GBLK`
/// this node was granted its own lock.
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
    fn an_ungranted_lock_is_described_with_its_holder() {
        let all = parse_locks(RECORDED).unwrap();
        let wanted: Vec<_> = all.iter().filter(|lock| lock.is_ungranted_request()).collect();
        let [wanted] = wanted[..] else { panic!("{wanted:?}") };
        let text = wanted.describe("lvm_a", &all);
        assert!(text.starts_with(
            "lock \"VGLK\" of lock space lvm_a was requested in mode EX by process 812"
        ));
        assert!(
            text.ends_with("more than 10 s ago; the lock is held in mode EX by node 2"),
            "{text}"
        );
    }

    /// The lock of GFS2's inode glock 2/5, whose master is node 2, while it is converted from shared to exclusive.
    #[test]
    fn a_lock_with_another_master_names_that_node() {
        let line = "10a 2 30b 0 0 5 0 3 3 5 2500000 2 24 \"       2               5\"\n";
        let all = parse_locks(line).unwrap();
        assert!(all[0].is_ungranted_request());
        let text = all[0].describe("job1", &all);
        assert!(text.contains("lock \"2               5\" of lock space job1"), "{text}");
        assert!(
            text.contains("mode EX (instead of PR)")
                && text.ends_with("node 2 decides about the lock")
        );
    }

    #[test]
    fn a_request_of_another_node_does_not_count_as_a_request_of_this_node() {
        let line = "1 2 3 4711 0 0 10000 1 -1 5 90412345 0 8 \"VGLK\"";
        assert!(!parse_locks(line).unwrap()[0].is_ungranted_request());
    }

    #[test]
    fn an_unknown_master_is_parsed_as_minus_one() {
        let line = "1 -1 0 12 0 0 0 1 -1 5 90 4294967295 8 \"VGLK\"";
        assert_eq!(parse_locks(line).unwrap()[0].master, -1);
    }

    #[test]
    fn malformed_tables_are_errors() {
        assert!(parse_locks("1 2 3").unwrap_err().contains("is no lock"));
        assert!(parse_waiters("2000a x").unwrap_err().contains("is no waiter"));
        assert_eq!(parse_locks("").unwrap(), []);
    }

    #[test]
    fn an_unanswered_message_is_described_with_its_node() {
        let text = parse_waiters("2000a 1 2 GBLK\n").unwrap()[0].describe("lvm_a");
        assert_eq!(
            text,
            "node 2 has not answered a request for lock \"GBLK\" (2000a) of lock space lvm_a"
        );
    }
}
