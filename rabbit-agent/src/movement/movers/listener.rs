//! Takes the lines of copiers into the table. Each copier has a thread.

use std::{process::ExitStatus, sync::Weak};

use movement::{
    order::Task,
    report::{Outcome, Report},
};
use storage::{desired::ObjectUid, linux::worker::Listener};

use super::{
    Movers, News,
    entry::{Entry, Running},
};
use crate::movement::{plan::End, report::Reading};

/// Most bytes of a line that is no report.
const LAST_WORDS: usize = 512;

/// Takes the lines of one process into the table. The agent may have ended meanwhile.
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
                movers.tell(News::Changed(entry.owner.name.clone()));
            }
            Ok(Report::Ended(ended)) => running.verdict = Some(ended),
            Err(_) => {
                running.last_words = causes::shortened(causes::escaped(line, ""), LAST_WORDS);
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
        movers.tell(News::Changed(entry.owner.name.clone()));
        movers.tell(News::Freed);
    }
}

/// Records the end of a copy.
fn end_copy(movers: &Movers, entry: &mut Entry, running: &Running, status: Option<ExitStatus>) {
    let Some(ended) = &running.verdict else {
        entry.losses += 1;
        entry.end = Some(End::Lost(last_words(running, status)));
        return;
    };
    let end = running.end_record(ended);
    if let Err(error) = movers.record(entry.owner.uid).set_end(&end) {
        // The next agent copies once more, and finds everything in place.
        log::warn!("NnfDataMovement {}: record its end: {error}", entry.owner.name);
    }
    entry.last = Some(Reading { progress: ended.progress, at: end.at, began: end.began });
    entry.end = Some(End::Verdict(ended.clone()));
}

/// Records whether temporary files were removed.
fn end_cleaning(entry: &mut Entry, running: &Running, status: Option<ExitStatus>) {
    entry.is_clean = true;
    entry.trouble = match &running.verdict {
        Some(ended) if ended.outcome == Outcome::Done => None,
        Some(ended) => Some(match &ended.outcome {
            Outcome::Stopped(why) => why.clone(),
            Outcome::Done | Outcome::Cancelled => "cancelled".to_owned(),
        }),
        None => Some(last_words(running, status)),
    };
}

/// Returns how a process ended that told no verdict.
fn last_words(running: &Running, status: Option<ExitStatus>) -> String {
    let status = status.map_or_else(|| "an unknown status".to_owned(), |status| status.to_string());
    let words = &running.last_words;
    let words = if words.is_empty() { String::new() } else { format!(": {words}") };
    format!("datamover ended with {status}{words}")
}
