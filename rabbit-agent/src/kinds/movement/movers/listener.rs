//! Takes the reports of `datamover` processes into the table. Each process has its own listening thread.

use std::{process::ExitStatus, sync::Weak};

use movement::{
    order::Task,
    report::{Outcome, Report},
};
use process::worker::Listener;
use storage::desired::ObjectUid;

use super::{
    Movers, News,
    entry::{Entry, Running},
};
use crate::kinds::movement::{plan::End, report::Reading};

/// Maximum bytes kept of a line that is not a report.
const MAX_OUTPUT: usize = 512;

/// Takes the reports of one process into the table, unless the agent has ended meanwhile.
#[derive(Debug)]
pub(super) struct CopierListener {
    pub(super) movers: Weak<Movers>,
    pub(super) uid: ObjectUid,
}

impl Listener for CopierListener {
    fn line(&mut self, line: &str) {
        let Some(movers) = self.movers.upgrade() else { return };
        let mut table = movers.table.lock();
        let Some(entry) = table.entries.get_mut(&self.uid) else { return };
        let Some(running) = &mut entry.running else { return };
        match serde_json::from_str(line) {
            Ok(Report::Progress(progress)) => {
                running.set_progress(progress);
                movers.send(News::Changed(entry.owner.name.clone()));
            }
            Ok(Report::Ended(ended)) => running.verdict = Some(ended),
            Err(_) => {
                running.last_output = causes::shortened(causes::escaped(line, ""), MAX_OUTPUT);
            }
        }
    }

    fn ended(self, status: Option<ExitStatus>) {
        let Some(movers) = self.movers.upgrade() else { return };
        let mut table = movers.table.lock();
        let Some(entry) = table.entries.get_mut(&self.uid) else { return };
        let Some(running) = entry.running.take() else { return };
        if entry.is_abandoned {
            table.entries.remove(&self.uid);
            drop(table);
            return movers.remove_record(self.uid);
        }
        match running.task {
            Task::Copy => end_copy(&movers, entry, &running, status),
            Task::Clean => end_cleaning(entry, &running, status),
        }
        movers.send(News::Changed(entry.owner.name.clone()));
        movers.send(News::Freed);
        table.share_rate(&movers.config);
    }
}

/// Records the end of a copy.
fn end_copy(movers: &Movers, entry: &mut Entry, running: &Running, status: Option<ExitStatus>) {
    let Some(ended) = &running.verdict else {
        entry.losses += 1;
        entry.end = Some(End::Lost(describe_exit(running, status)));
        return;
    };
    let end = running.end_record(ended);
    if let Err(error) = movers.record(entry.owner.uid).set_end(&end) {
        // Without the recorded end, a restarted agent starts the copy again; the copy then finds that all files are
        // copied already.
        log::warn!(
            "NnfDataMovement {}: write its end to the state directory: {error}",
            entry.owner.name
        );
    }
    entry.last = Some(Reading { progress: ended.progress, at: end.at, began: end.began });
    entry.end = Some(End::Verdict(ended.clone()));
}

/// Records that temporary files were removed, or why they were not.
fn end_cleaning(entry: &mut Entry, running: &Running, status: Option<ExitStatus>) {
    entry.is_clean = true;
    entry.cleaning_error = match &running.verdict {
        Some(ended) if ended.outcome == Outcome::Done => None,
        Some(ended) => Some(match &ended.outcome {
            Outcome::Stopped(why) => why.clone(),
            Outcome::Done | Outcome::Cancelled => "cancelled".to_owned(),
        }),
        None => Some(describe_exit(running, status)),
    };
}

/// Describes the end of a process that ended without a final report.
fn describe_exit(running: &Running, status: Option<ExitStatus>) -> String {
    let status = status.map_or_else(|| "an unknown status".to_owned(), |status| status.to_string());
    let output = &running.last_output;
    let output = if output.is_empty() { String::new() } else { format!(": {output}") };
    format!("datamover ended with {status}{output}")
}
