//! The state directory of a movement: `datamover`'s journal and list of failures, the number of starts, and the end.
//! Only root may read it.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, BufRead, BufReader, Read},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use api::nnf_data_movement::DataMovementFailure;
use k8s_openapi::jiff::Timestamp;
use movement::report::Ended;
use serde::{Deserialize, Serialize};
use storage::desired::ObjectUid;

/// The file that `datamover` locks while it runs.
const JOURNAL: &str = "log";

/// Maximum bytes that the agent reads from the list of failures: the status of an object holds them.
const LIST_BYTES: u64 = 16 << 10;

/// The recorded end of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedEnd {
    pub ended: Ended,
    /// When the last process started.
    pub began: Timestamp,
    /// When that process ended.
    pub at: Timestamp,
}

/// The state directory of one movement.
#[derive(Debug, Clone)]
pub struct MovementRecord {
    directory: PathBuf,
}

impl MovementRecord {
    /// Returns the state directory of the object with this uid.
    #[must_use]
    pub fn new(state: &Path, uid: ObjectUid) -> Self {
        Self { directory: state.join(uid.to_string()) }
    }

    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the number of copies that were started.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn starts(&self) -> io::Result<u64> {
        let text = files::none_if_absent(fs::read_to_string(self.directory.join("starts")))?;
        // After a loss of power the file may be incomplete. The file exists only if a copy was about to start, so one
        // start counts.
        Ok(text.map_or(0, |text| text.trim().parse().unwrap_or(1)))
    }

    /// Writes the number of copies that were started; creates the directory first.
    ///
    /// # Errors
    /// When the number cannot be written.
    pub fn set_starts(&self, number: u64) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        files::write_durably(&self.directory.join("starts"), number.to_string().as_bytes())
    }

    /// Returns the recorded end of the copy; `None` too when the record cannot be read: the copy then continues and
    /// ends again.
    #[must_use]
    pub fn end(&self) -> Option<RecordedEnd> {
        let bytes = fs::read(self.directory.join("end")).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Writes the end of the copy.
    ///
    /// # Errors
    /// When the end cannot be written.
    pub fn set_end(&self, end: &RecordedEnd) -> io::Result<()> {
        files::write_durably(&self.directory.join("end"), &serde_json::to_vec(end)?)
    }

    /// Returns the first lines of the list of failures, about [`LIST_BYTES`].
    #[must_use]
    pub fn failures(&self) -> Vec<DataMovementFailure> {
        let Ok(list) = File::open(self.directory.join("failures")) else { return Vec::new() };
        let lines = BufReader::new(list.take(LIST_BYTES)).lines().map_while(Result::ok);
        lines.filter_map(|line| serde_json::from_str(&line).ok()).collect()
    }

    /// Whether a process works on the movement: a process of an earlier agent may not have ended yet.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        let journal = File::open(self.directory.join(JOURNAL));
        journal.is_ok_and(|journal| matches!(journal.try_lock(), Err(fs::TryLockError::WouldBlock)))
    }

    /// Removes the directory.
    ///
    /// # Errors
    /// When the directory cannot be removed completely.
    pub fn remove(&self) -> io::Result<()> {
        files::none_if_absent(files::remove_tree(&self.directory)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use movement::report::{Outcome, Progress};

    use super::*;

    #[test]
    fn a_restarted_agent_reads_the_starts_and_the_end_that_were_written_until_they_are_removed() {
        let state = tempfile::tempdir().unwrap();
        let uid = "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21".parse().unwrap();
        let record = || MovementRecord::new(state.path(), uid);
        assert_eq!((record().starts().unwrap(), record().end()), (0, None));
        record().remove().unwrap();
        record().set_starts(2).unwrap();
        let ended = Ended { outcome: Outcome::Done, progress: Progress::default() };
        let end = RecordedEnd { ended, began: Timestamp::UNIX_EPOCH, at: Timestamp::UNIX_EPOCH };
        record().set_end(&end).unwrap();
        assert_eq!((record().starts().unwrap(), record().end()), (2, Some(end)));
        record().remove().unwrap();
        assert_eq!(record().starts().unwrap(), 0);
    }

    #[test]
    fn a_record_is_locked_while_a_process_locks_its_journal() {
        let state = tempfile::tempdir().unwrap();
        let uid = "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21".parse().unwrap();
        let record = MovementRecord::new(state.path(), uid);
        assert!(!record.is_locked());
        record.set_starts(1).unwrap();
        let journal = File::create(record.directory().join(JOURNAL)).unwrap();
        assert!(!record.is_locked());
        journal.lock().unwrap();
        assert!(record.is_locked());
    }

    #[test]
    fn failures_returns_the_first_lines_of_the_list_and_skips_unreadable_lines() {
        let state = tempfile::tempdir().unwrap();
        let uid = "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21".parse().unwrap();
        let record = MovementRecord::new(state.path(), uid);
        record.set_starts(1).unwrap();
        let line = r#"{"path":"a","action":"open","errno":13,"error":"Permission denied"}"#;
        let list = format!("{line}\nx\n{line}\n{}", format!("{line}\n").repeat(10_000));
        fs::write(record.directory().join("failures"), list).unwrap();
        let failures = record.failures();
        assert!((100..1000).contains(&failures.len()), "{}", failures.len());
        assert_eq!((&*failures[0].path, &*failures[0].action), ("a", "open"));
    }
}
