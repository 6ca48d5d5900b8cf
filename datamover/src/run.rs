//! One movement from its order to its end.

use std::{
    ffi::CString,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::ExitCode,
    sync::{Arc, Condvar, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use movement::{
    layout::{self, Kind, Layout},
    order::{Order, Place, Task},
    report::{Ended, Outcome, Progress, Report, Total},
};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, fstat, fstatvfs, futimens, openat, syncfs, unlinkat},
    io::Errno,
};

use crate::{
    confine,
    data::bytes_of_data,
    file::{self, Opened},
    folder::Folder,
    journal::{Journal, Time},
    mover::{Mover, Worker},
    place,
    resume::{self, Resume},
    scan, talk, walk,
};

/// Between checkpoints.
const CHECKPOINT: Duration = Duration::from_secs(10);
/// How long copying waits for the count of what there is, so that a destination that is too small is known before.
const COUNT: Duration = Duration::from_millis(250);
/// How long threads may take to end after a movement was stopped. One that hangs in the kernel is left behind.
const STOP: Duration = Duration::from_millis(1500);

/// Runs `datamover`: reads an order, carries it out, and tells how it ended.
#[must_use]
pub fn main() -> ExitCode {
    let ended = match talk::order() {
        Ok(order) => carry_out(order),
        Err(error) => stopped(chain(&error)),
    };
    talk::tell(&Report::Ended(ended));
    // Threads that hang in the kernel are not waited for.
    std::process::exit(0)
}

fn stopped(reason: String) -> Ended {
    Ended { outcome: Outcome::Stopped(reason), progress: Progress::default() }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Opens what only root may open, becomes the user, and copies or cleans up.
fn carry_out(order: Order) -> Ended {
    let task = order.task;
    let begun = begin(order);
    let (mover, source) = match begun {
        Ok(begun) => begun,
        Err(reason) => return stopped(reason),
    };
    let outcome = match task {
        Task::Clean => {
            clean(&mover);
            Outcome::Done
        }
        Task::Copy => copy(&mover, &source),
    };
    mover.failures.flush();
    Ended { outcome, progress: mover.counters.progress() }
}

fn begin(order: Order) -> Result<(Arc<Mover>, File), String> {
    let at = |path: &Path| format!("open {}", path.display());
    let (journal, log) =
        Journal::open(&order.state).map_err(|error| format!("{}: {error}", at(&order.state)))?;
    let failures = failures(&order.state.join("failures"))
        .map_err(|error| format!("{}: {error}", at(&order.state)))?;
    let open = |place: &Place| {
        place::root(&place.root).map_err(|errno| format!("{}: {}", at(&place.root), text(errno)))
    };
    let (source, root) = (open(&order.source)?, open(&order.destination)?);
    confine::become_user(&order.user).map_err(|error| chain(&error))?;
    confine::restrict(&source, &root).map_err(|error| chain(&error))?;
    let resume = (!log.is_empty()).then(|| resume::read(&log, journal.boot()));
    let is_within = fstat(&source).ok().zip(fstat(&root).ok());
    let is_within = is_within.is_some_and(|(source, root)| source.st_dev == root.st_dev);
    let mut mover = Mover::new(order, root, failures, journal, resume);
    mover.is_within_one_file_system = is_within;
    Ok((Arc::new(mover), source))
}

/// Opens the list of failures. What failed in an earlier run is tried again, and listed again if it fails again.
fn failures(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.custom_flags(nix::libc::O_NOFOLLOW).open(path)
}

fn text(errno: Errno) -> String {
    io::Error::from(errno).to_string()
}

/// What a movement copies.
enum Source {
    /// The contents of a directory, or the directory itself.
    Directory(File),
    File(File),
}

fn copy(mover: &Arc<Mover>, root: &File) -> Outcome {
    let (source, layout) = match find(mover, root) {
        Ok(found) => found,
        Err(reason) => return Outcome::Stopped(reason),
    };
    let destination = format!("destination {:?}", mover.order.destination.path);
    let creates = mover.order.creates_directories;
    let target = match place::reach(&mover.root, &layout.directory, creates) {
        Ok(target) => target,
        Err(errno) => return Outcome::Stopped(format!("{destination}: {}", text(errno))),
    };
    if mover.resume.is_some() {
        clean_small(mover);
    }
    if let Err(errno) = mark(mover, &target, &layout) {
        return Outcome::Stopped(format!("{destination}: {}", text(errno)));
    }
    if let Err(error) = talk::follow(Arc::downgrade(mover)) {
        return Outcome::Stopped(format!("start a thread: {error}"));
    }
    count(mover, &source);
    if mover.end().is_none() {
        run(mover, source, target, &layout);
    }
    finish(mover)
}

/// Opens the source, and decides where its copy goes.
fn find(mover: &Mover, root: &File) -> Result<(Source, Layout), String> {
    let order = &mover.order;
    let (from, to) = (&order.source.path, &order.destination.path);
    let source = |errno| format!("source {from:?}: {}", text(errno));
    let kind = place::kind(root, from).map_err(source)?;
    let there = place::kind(&mover.root, to)
        .map_err(|errno| format!("destination {to:?}: {}", text(errno)))?;
    let index = order.index_directory.as_deref();
    let layout = layout::layout((from, kind), (to, there), index)
        .map_err(|error| format!("copy {from:?} to {to:?}: {error}"))?;
    let opened = match kind {
        Kind::Directory => place::directory(root, from).map(Source::Directory),
        Kind::File | Kind::Absent => place::file(root, from).map(Source::File),
    };
    Ok((opened.map_err(source)?, layout))
}

/// Name of the file whose times are those of the destination's clock.
fn marker(mover: &Mover) -> String {
    mover.temporary(0)
}

/// Makes the marker and records the begin of this run in the destination's own time.
fn mark(mover: &Mover, target: &File, layout: &Layout) -> Result<(), Errno> {
    let noted = mover.journal.note_folder(0, layout.directory.as_bytes());
    noted.map_err(|error| crate::data::errno_of(&error))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let marker = openat(target, marker(mover), flags, Mode::RUSR | Mode::WUSR)?;
    let started = mover.journal.note_start(changed(&File::from(marker))?);
    started.map_err(|error| crate::data::errno_of(&error))
}

fn changed(file: &File) -> Result<Time, Errno> {
    let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    futimens(file, &rustix::fs::Timestamps { last_access: now, last_modification: now })?;
    let stat = fstat(file)?;
    Ok((stat.st_ctime, stat.st_ctime_nsec.cast_signed()))
}

/// Counts what there is. A destination that cannot hold it ends the movement before anything is copied.
fn count(mover: &Arc<Mover>, source: &Source) {
    let directory = match source {
        Source::Directory(directory) => directory.try_clone(),
        Source::File(file) => {
            let bytes = fstat(file).map_or(0, |stat| bytes_of_data(&stat));
            let _ = mover.counters.total.set(Total { files: 1, bytes });
            return check_space(mover);
        }
    };
    let Ok(directory) = directory else { return };
    let (done, counted) = mpsc::channel();
    let counter = mover.clone();
    let count = move || {
        let _ = counter.counters.total.set(scan::count(&counter, &directory));
        let _ = done.send(());
    };
    let started = thread::Builder::new().name("count".to_owned()).spawn(count);
    if started.is_ok() && counted.recv_timeout(COUNT).is_ok() {
        check_space(mover);
    }
}

fn check_space(mover: &Mover) {
    // What earlier runs copied is there already. Copies within a file system may share blocks.
    if mover.resume.is_some() || mover.is_within_one_file_system {
        return;
    }
    let (Some(total), Ok(there)) = (mover.counters.total.get(), fstatvfs(&mover.root)) else {
        return;
    };
    let free = there.f_bavail.saturating_mul(there.f_frsize);
    if total.bytes > free {
        let missing = total.bytes - free;
        mover.stop(Outcome::Stopped(format!(
            "destination {:?} on {}: {} bytes are to be copied and {free} are free; {missing} bytes are missing, nothing was copied",
            mover.order.destination.path, mover.order.destination.root.display(), total.bytes
        )));
    }
}

/// Copies with all threads, and tells progress meanwhile.
fn run(mover: &Arc<Mover>, source: Source, target: File, layout: &Layout) {
    let marker = openat(&target, marker(mover), OFlags::WRONLY | OFlags::NOFOLLOW, Mode::empty());
    let marker = marker.map(File::from);
    let done = Arc::new(Done::default());
    hand_out(mover, source, target, layout);
    let threads: Vec<_> = (1..=mover.order.threads.max(1))
        .map(|slot| {
            let (mover, done) = (mover.clone(), done.clone());
            thread::Builder::new().name(format!("copy {slot}")).spawn(move || {
                walk::work(&mover, &mut Worker::new(slot));
                done.add();
            })
        })
        .filter_map(Result::ok)
        .collect();
    if threads.is_empty() {
        return mover.stop(Outcome::Stopped("no thread could be started".to_owned()));
    }
    if let Ok(marker) = marker {
        keep_checkpoints(mover, marker, &done);
    }
    watch(mover, &done, threads.len());
}

/// Puts the first work into the queue.
fn hand_out(mover: &Arc<Mover>, source: Source, target: File, layout: &Layout) {
    let name = layout.name.as_deref().and_then(|name| CString::new(name).ok());
    let nothing = || target.try_clone();
    let worker = &mut Worker::new(0);
    match (source, name) {
        (Source::Directory(source), None) => {
            let top = Folder::top(mover, source, target, &layout.directory);
            walk::read(mover, worker, &Arc::new(top));
        }
        (Source::Directory(source), Some(name)) => {
            let Ok(unread) = nothing() else { return };
            let mut top = Folder::top(mover, unread, target, &layout.directory);
            cut_last(&mut top.source_path);
            match Arc::new(top).make(mover, source, &name) {
                Ok(folder) => walk::read(mover, worker, &Arc::new(folder)),
                Err(errno) => {
                    mover.fail_write(
                        mover.order.source.path.as_bytes(),
                        "copy the directory",
                        errno,
                    );
                }
            }
        }
        (Source::File(source), name) => {
            let Ok(unread) = nothing() else { return };
            let folder = Arc::new(Folder::top(mover, unread, target, &layout.directory));
            copy_file(mover, worker, folder, source, name);
        }
    }
}

fn cut_last(path: &mut Vec<u8>) {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    path.truncate(end);
}

fn copy_file(
    mover: &Arc<Mover>,
    worker: &mut Worker,
    folder: Arc<Folder>,
    source: File,
    name: Option<CString>,
) {
    let from = mover.order.source.path.as_bytes().to_vec();
    match (fstat(&source), name) {
        (Ok(stat), Some(to)) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
            file::copy_opened(mover, worker, Opened { folder, from, to, source, stat });
        }
        (Err(errno), _) => mover.fail(&from, "open", errno),
        _ => mover.fail(&from, "copy what is neither a file nor a directory", Errno::INVAL),
    }
}

/// How many threads have ended.
#[derive(Debug, Default)]
struct Done {
    threads: Mutex<usize>,
    changed: Condvar,
}

impl Done {
    fn add(&self) {
        *self.threads.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    /// Waits until so many threads have ended, and says whether they have.
    fn wait(&self, threads: usize, most: Duration) -> bool {
        let ended = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(ended, most, |ended| *ended < threads);
        *waited.unwrap_or_else(PoisonError::into_inner).0 >= threads
    }
}

/// Tells progress until all threads have ended, or do not end though they should.
fn watch(mover: &Mover, done: &Done, threads: usize) {
    let interval = Duration::from_millis(mover.order.interval.max(100));
    let (mut told, mut next) = (None, Instant::now());
    let mut stop = None;
    loop {
        // A cancelled movement is noticed at once.
        if done.wait(threads, Duration::from_millis(50).min(interval)) {
            return;
        }
        if mover.is_over() {
            let since = *stop.get_or_insert_with(Instant::now);
            if since.elapsed() > STOP {
                return;
            }
        }
        let now = mover.counters.progress();
        if Instant::now() >= next && told != Some(now) {
            talk::tell(&Report::Progress(now));
            mover.failures.flush();
            (told, next) = (Some(now), Instant::now() + interval);
        }
    }
}

/// Has everything that was copied so far on stable storage from time to time.
fn keep_checkpoints(mover: &Arc<Mover>, marker: File, done: &Arc<Done>) {
    let (mover, done) = (mover.clone(), done.clone());
    let threads = usize::from(mover.order.threads.max(1));
    let keep = move || {
        while !done.wait(threads, CHECKPOINT) && !mover.is_over() {
            let Ok(time) = changed(&marker) else { return };
            if syncfs(&mover.root).is_err() || mover.journal.note_checkpoint(time).is_err() {
                return;
            }
        }
    };
    // Without it, a run after a loss of power copies everything again.
    let _ = thread::Builder::new().name("checkpoints".to_owned()).spawn(keep);
}

/// Syncs the destination if that is ordered, and removes what is temporary.
fn finish(mover: &Mover) -> Outcome {
    if let Some(end) = mover.end() {
        clean(mover);
        return end.clone();
    }
    if mover.order.syncs
        && let Err(errno) = syncfs(&mover.root)
    {
        return Outcome::Stopped(format!(
            "write the destination to stable storage: {}",
            text(errno)
        ));
    }
    clean(mover);
    Outcome::Done
}

/// Removes all temporary files of earlier runs and of this one. A large file that an earlier run began may have changed since, or
/// come under another of its names.
fn clean(mover: &Mover) {
    clean_small(mover);
    for (path, number) in mover.resume.iter().flat_map(Resume::temporaries) {
        let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        remove(mover, &path[..end], &mover.temporary_large(number));
    }
}

/// Removes the threads' temporary files. Those of large files stay: their blocks are copied once.
fn clean_small(mover: &Mover) {
    for (slot, path) in mover.journal.folders().unwrap_or_default() {
        remove(mover, &path, &mover.temporary(slot));
    }
}

fn remove(mover: &Mover, folder: &[u8], name: &str) {
    if let Ok(folder) = place::directory(&mover.root, folder) {
        let _ = unlinkat(&folder, name, AtFlags::empty());
    }
}
