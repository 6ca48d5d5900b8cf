//! Reads from the log of earlier runs which files of the destination are complete, and which blocks of large files are
//! copied.

use std::collections::{BTreeSet, HashMap};

use percent_encoding::percent_decode_str;
use rustix::fs::Stat;

use crate::journal::Time;

/// The state that earlier runs left.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Resume {
    /// Begin and end of periods, by the destination's clock: a file that an earlier run renamed to its final name in
    /// one of these periods is complete. The period of an earlier boot ends at its last checkpoint, because a file that
    /// was written later may lack data.
    trusted: Vec<(Time, Option<Time>)>,
    /// Large files that earlier runs began, by path.
    large: HashMap<Vec<u8>, Begun>,
    /// The next number for a large file's temporary name.
    pub(crate) next: u64,
}

/// A large file that an earlier run began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) number: u64,
    pub(crate) size: u64,
    pub(crate) modified: Time,
    pub(crate) blocks: BTreeSet<u64>,
}

/// Reads a log. `boot` is the present boot id. A block of an earlier boot counts as copied only if a checkpoint covers
/// it.
pub(crate) fn read(log: &str, boot: &str) -> Resume {
    let mut resume = Resume::default();
    let mut boots: Vec<(String, Time, Option<Time>)> = Vec::new();
    // Blocks that no checkpoint covers, of the boot whose lines are being read: `unsure` were recorded after the latest
    // sync began, `syncing` before.
    let mut unsure: Vec<(u64, u64)> = Vec::new();
    let mut syncing: Vec<(u64, u64)> = Vec::new();
    let mut blocks: HashMap<u64, BTreeSet<u64>> = HashMap::new();
    for line in log.lines() {
        match *line.split(' ').collect::<Vec<_>>() {
            ["start", id, seconds, nanoseconds] => {
                let Some(time) = time(seconds, nanoseconds) else { continue };
                if boots.last().is_none_or(|last| last.0 != id) {
                    unsure.clear();
                    syncing.clear();
                    boots.push((id.to_owned(), time, None));
                }
            }
            ["checkpoint", _, seconds, nanoseconds] => {
                if let Some(last) = boots.last_mut() {
                    last.2 = time(seconds, nanoseconds);
                }
                for (number, block) in syncing.drain(..) {
                    blocks.entry(number).or_default().insert(block);
                }
            }
            ["sync"] => syncing.append(&mut unsure),
            ["block", number, block] => {
                unsure.extend(number.parse().ok().zip(block.parse().ok()));
            }
            ["large", number, size, seconds, nanoseconds, path] => {
                resume.begin(number, size, time(seconds, nanoseconds), path);
            }
            _ => {}
        }
    }
    let is_present = boots.last().is_some_and(|last| last.0 == boot);
    if is_present {
        syncing.into_iter().chain(unsure).for_each(|(number, block)| {
            blocks.entry(number).or_default().insert(block);
        });
    }
    for begun in resume.large.values_mut() {
        begun.blocks = blocks.remove(&begun.number).unwrap_or_default();
    }
    let trusted = |(id, from, until): (String, Time, Option<Time>)| {
        if id == boot { Some((from, None)) } else { until.map(|until| (from, Some(until))) }
    };
    resume.trusted = boots.into_iter().filter_map(trusted).collect();
    resume
}

fn time(seconds: &str, nanoseconds: &str) -> Option<Time> {
    seconds.parse().ok().zip(nanoseconds.parse().ok())
}

impl Resume {
    fn begin(&mut self, number: &str, size: &str, modified: Option<Time>, path: &str) {
        let (Ok(number), Ok(size), Some(modified)) = (number.parse(), size.parse(), modified)
        else {
            return;
        };
        let path = percent_decode_str(path).collect();
        self.large.insert(path, Begun { number, size, modified, blocks: BTreeSet::new() });
        self.next = self.next.max(number + 1);
    }

    /// Whether a file of the destination is a complete copy of the source that an earlier run renamed to its final
    /// name.
    pub(crate) fn is_complete(&self, source: &Stat, copy: &Stat) -> bool {
        let changed = (copy.st_ctime, copy.st_ctime_nsec.cast_signed());
        let is_trusted = |(from, until): &(Time, Option<Time>)| {
            changed >= *from && until.is_none_or(|until| changed < until)
        };
        source.st_size == copy.st_size
            && modified(source) == modified(copy)
            && self.trusted.iter().any(is_trusted)
    }

    /// Returns the large file that an earlier run began from the same, unmodified source.
    pub(crate) fn begun(&self, path: &[u8], source: &Stat) -> Option<&Begun> {
        let begun = self.large.get(path)?;
        let is_same =
            begun.size == source.st_size.cast_unsigned() && begun.modified == modified(source);
        is_same.then_some(begun)
    }

    /// Returns the number in a large file's temporary name.
    pub(crate) fn number_of(&self, path: &[u8]) -> Option<u64> {
        self.large.get(path).map(|begun| begun.number)
    }

    /// Returns, for each large file that earlier runs began, its path and the number in its temporary name.
    pub(crate) fn temporary_files(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.large.iter().map(|(path, begun)| (&**path, begun.number))
    }
}

/// Returns a file's modification time.
pub(crate) fn modified(stat: &Stat) -> Time {
    (stat.st_mtime, stat.st_mtime_nsec.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGUN: &str = "start old 10 0\nlarge 3 300 7 8 a%2Fb\nblock 3 0\n";

    fn blocks(log: &str, boot: &str) -> Vec<u64> {
        read(log, boot).large[&b"a/b"[..]].blocks.iter().copied().collect()
    }

    #[test]
    fn after_a_reboot_only_blocks_noted_before_a_finished_sync_count_as_copied() {
        for (rest, same_boot, other_boot) in [
            ("", &[0][..], &[][..]),
            ("sync\nblock 3 1\n", &[0, 1], &[]),
            ("sync\nblock 3 1\ncheckpoint old 20 0\n", &[0, 1], &[0]),
            ("sync\ncheckpoint old 20 0\nblock 3 1\nstart new 30 0\nblock 3 2\n", &[0], &[0]),
        ] {
            let log = format!("{BEGUN}{rest}");
            let expected = if rest.contains("start new") { other_boot } else { same_boot };
            assert_eq!(blocks(&log, "old"), expected, "{rest}");
            assert_eq!(blocks(&log, "other"), other_boot, "{rest}");
        }
    }

    #[test]
    fn files_of_an_earlier_boot_are_trusted_only_up_to_its_last_checkpoint() {
        let log = format!("{BEGUN}sync\ncheckpoint old 20 5\nstart new 30 0\n");
        let resume = read(&log, "new");
        assert_eq!(resume.trusted, [((10, 0), Some((20, 5))), ((30, 0), None)]);
        assert_eq!(resume.next, 4);
        assert_eq!(read(BEGUN, "new").trusted, []);
    }
}
