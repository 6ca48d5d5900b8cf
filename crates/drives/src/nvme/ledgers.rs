//! Keeps the ledgers of all drives that this node ever used. For each drive there is one [`Ledger`] object, and only
//! one agent at a time may use the ledgers: two objects or agents would overwrite each other's records.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
    process,
    sync::Arc,
};

use log::warn;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use parking_lot::Mutex;
use procfs::{
    ProcError,
    process::{ProcState, Process},
};
use storage::desired::Nqn;

use super::ledger::Ledger;

#[derive(Debug)]
pub(super) struct Ledgers {
    directory: PathBuf,
    opened: Mutex<BTreeMap<Nqn, Arc<Ledger>>>,
    _lock: Flock<File>,
}

impl Ledgers {
    /// Opens the ledgers in `directory` and locks out other agents.
    ///
    /// # Errors
    /// When another agent uses the ledgers: that agent must be stopped first.
    pub(super) fn open(directory: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&directory)?;
        // Agents open the ledgers one after another. Otherwise an agent could read the lock file after another agent
        // has locked it but before that agent has written its PID, and would find the PID of a dead agent.
        let _turn = Flock::lock(File::open(&directory)?, FlockArg::LockExclusive)
            .map_err(|(_, errno)| errno)?;
        let lock = lock_out_others(&directory.join("agent"))?;
        Ok(Self { directory, opened: Mutex::default(), _lock: lock })
    }

    /// Returns the ledger of a drive, which need not be plugged in. After a failed read, the next call
    /// reads the ledger again.
    pub(super) fn ledger(&self, nqn: &Nqn) -> io::Result<Arc<Ledger>> {
        let mut opened = self.opened.lock();
        if let Some(ledger) = opened.get(nqn) {
            return Ok(Arc::clone(ledger));
        }
        let ledger = Arc::new(Ledger::open(&self.directory, nqn)?);
        opened.insert(nqn.clone(), Arc::clone(&ledger));
        Ok(ledger)
    }

    pub(super) fn path(&self, nqn: &Nqn) -> PathBuf {
        Ledger::path(&self.directory, nqn)
    }

    pub(super) fn known(&self) -> io::Result<BTreeMap<PathBuf, io::Result<Nqn>>> {
        let mut known = BTreeMap::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            known.extend(Ledger::drive_of(&path).map(|nqn| (path, nqn)));
        }
        Ok(known)
    }
}

/// Keeps all other agents out while this process lives (flock(2)). Another agent reads our PID from the file.
fn lock_out_others(path: &Path) -> io::Result<Flock<File>> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut held) => {
            held.set_len(0)?;
            write!(held, "{} {}", process::id(), pid_namespace()?)?;
            Ok(held)
        }
        Err((mut file, Errno::EWOULDBLOCK)) => {
            let mut holder = String::new();
            file.rewind()?;
            file.read_to_string(&mut holder)?;
            require_dead(path, holder.trim())?;
            // A thread or child of the dead agent may keep its lock on the removed file; the new file gets a lock of
            // its own.
            fs::remove_file(path)?;
            lock_out_others(path)
        }
        Err((_, errno)) => Err(errno.into()),
    }
}

/// Fails unless the agent that holds the lock was killed. A thread of a killed agent that waits for a drive, or a child
/// that waits for a mount, may still hold the lock. This function does not wait for such a thread or child, because it
/// makes no further change, and because waiting would block all drives. The PID can be checked only if it is from our
/// own PID namespace; an agent of another PID namespace counts as alive.
fn require_dead(path: &Path, holder: &str) -> io::Result<()> {
    let (pid, namespace) = holder.split_once(' ').unwrap_or((holder, ""));
    if namespace == pid_namespace()? && pid.parse().is_ok_and(has_ended) {
        warn!(pid; "the previous agent was killed, but one of its threads or children has not ended");
        return Ok(());
    }
    let path = path.display();
    let why = format!(
        "process {pid} works on these drives, and has {path} locked: stop that agent first"
    );
    Err(io::Error::new(io::ErrorKind::ResourceBusy, why))
}

/// Returns whether a process has ended; false when the check fails, because the process may be alive.
fn has_ended(pid: i32) -> bool {
    match Process::new(pid).and_then(|process| process.stat()).and_then(|stat| stat.state()) {
        Ok(state) => matches!(state, ProcState::Zombie | ProcState::Dead),
        Err(error) => matches!(error, ProcError::NotFound(_)),
    }
}

fn pid_namespace() -> io::Result<String> {
    Ok(fs::read_link("/proc/self/ns/pid")?.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::nvme::ledger::{Found, Record};
    use storage::{desired::AllocationId, observed::NamespaceOwner};

    #[test]
    fn concurrent_changes_to_one_ledger_are_all_recorded() {
        let state = tempfile::tempdir().unwrap();
        let ledgers = Ledgers::open(state.path().join("drives")).unwrap();
        let nqn: Nqn = "nqn.2019-08.org.qemu:drive0".parse().unwrap();
        let owner = "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap();
        let allocation = |nsid| AllocationId { owner, index: nsid };
        let found = |nsid| Found { nsid, nguid: [1; 16], size: 4096 };
        (1..=64).for_each(|nsid| {
            let ledger = ledgers.ledger(&nqn).unwrap();
            ledger
                .record_created(
                    allocation(nsid),
                    found(nsid),
                    1,
                    crate::nvme::ledger::Creation::Complete,
                )
                .unwrap();
        });
        let at_once = |note: &(dyn Fn(u32) -> io::Result<()> + Sync)| {
            thread::scope(|scope| {
                (1..=64).for_each(|nsid| drop(scope.spawn(move || note(nsid).unwrap())));
            });
        };
        let again = || Ledger::open(&state.path().join("drives"), &nqn).unwrap().records();
        at_once(&|nsid| ledgers.ledger(&nqn)?.record_replaced(nsid, allocation(nsid)));
        let replaced = |record: &Record| matches!(record.owner(), NamespaceOwner::Replaced(_));
        assert_eq!(again().iter().filter(|record| replaced(record)).count(), 64);
        at_once(&|nsid| ledgers.ledger(&nqn)?.record_deleted(nsid, allocation(nsid)));
        assert!(again().is_empty());
        let known: Vec<_> = ledgers.known().unwrap().into_values().map(Result::unwrap).collect();
        assert_eq!(known, [nqn]);
    }

    #[test]
    fn a_second_agent_is_refused_while_the_first_lives() {
        let state = tempfile::tempdir().unwrap();
        let first = Ledgers::open(state.path().to_owned()).unwrap();
        let refused = Ledgers::open(state.path().to_owned()).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("process {} works", process::id())), "{refused}");
        let lock_text = fs::read_to_string(state.path().join("agent")).unwrap();
        // Simulates a dead agent whose child still holds the lock: no process has this PID, which is too large.
        let dead = lock_text.replacen(&process::id().to_string(), &i32::MAX.to_string(), 1);
        fs::write(state.path().join("agent"), dead).unwrap();
        let second = Ledgers::open(state.path().to_owned()).unwrap();
        Ledgers::open(state.path().to_owned()).expect_err("the second agent has a lock of its own");
        fs::write(state.path().join("agent"), format!("{} pid:[1]", i32::MAX)).unwrap();
        Ledgers::open(state.path().to_owned()).unwrap_err();
        drop(first);
        Ledgers::open(state.path().to_owned()).unwrap_err();
        drop(second);
        Ledgers::open(state.path().to_owned()).unwrap();
    }
}
