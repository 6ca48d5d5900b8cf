//! Counts the files and bytes of a tree, while other threads copy it.

use std::{collections::HashSet, ffi::CString, fs::File};

use movement::{order::Share, report::Total};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, openat, statat};

use crate::{
    data::bytes_of_data,
    links::{Key, key},
    mover::Mover,
};

const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const BUFFER: usize = 32 << 10;
/// Maximum levels of a tree; the same limit as in copying.
const LEVELS: usize = 1000;

/// Counts the part of a tree that this movement copies. Skips entries that cannot be read; the copying threads report
/// them.
pub(crate) fn count(mover: &Mover, directory: &File) -> Total {
    let mut total = Count::default();
    let mut levels = vec![(None, subdirectories(mover, directory, mover.order.share, &mut total))];
    while let Some((opened, names)) = levels.last_mut() {
        let Some(name) = names.pop() else {
            levels.pop();
            continue;
        };
        let parent: &File = opened.as_ref().unwrap_or(directory);
        let Ok(child) = openat(parent, name, OPEN, Mode::empty()).map(File::from) else { continue };
        if levels.len() < LEVELS {
            let names = subdirectories(mover, &child, None, &mut total);
            levels.push((Some(child), names));
        }
        if mover.is_over() {
            break;
        }
    }
    total.total
}

/// Maximum number of files with several names that are counted only once. Of further such files, every name counts as a
/// file.
const MAX_LINKED: usize = 200_000;

#[derive(Default)]
struct Count {
    total: Total,
    /// Files with several names that are counted already.
    linked: HashSet<Key>,
}

impl Count {
    fn add(&mut self, stat: &Stat) {
        let is_another_name = stat.st_nlink > 1
            && (self.linked.contains(&key(stat))
                || (self.linked.len() < MAX_LINKED && !self.linked.insert(key(stat))));
        if !is_another_name {
            self.total.files += 1;
            self.total.bytes += bytes_of_data(stat);
        }
    }
}

/// Counts the files of one directory, and returns the names of its directories. Leaves out entries of other shares.
fn subdirectories(
    mover: &Mover,
    directory: &File,
    share: Option<Share>,
    total: &mut Count,
) -> Vec<CString> {
    let mut names = Vec::new();
    let mut buffer = Vec::with_capacity(BUFFER);
    // Opens the directory again, for a read offset of its own: a copying thread reads through `directory`.
    let Ok(opened) = openat(directory, c".", OPEN, Mode::empty()) else { return names };
    let mut entries = RawDir::new(&opened, buffer.spare_capacity_mut());
    while let Some(Ok(entry)) = entries.next() {
        if mover.is_over() {
            break;
        }
        let name = entry.file_name();
        let is_ours = share.is_none_or(|share| share.has(name.to_bytes()));
        if name == c"." || name == c".." || !is_ours {
            continue;
        }
        if entry.file_type() == FileType::Directory {
            names.push(name.to_owned());
            continue;
        }
        let Ok(stat) = statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => names.push(name.to_owned()),
            FileType::RegularFile => total.add(&stat),
            _ => {}
        }
    }
    names
}
