//! One movement from its order to its end.

use std::{
    ffi::CString,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::ExitCode,
    sync::Arc,
    thread,
    time::Duration,
};

use causes::chain;
use movement::{
    layout::{self, Kind, Layout},
    order::{Order, Place, Task},
    report::{Ended, Outcome, Progress, Report},
};
use rustix::{
    fs::{FileType, fstat, syncfs},
    io::Errno,
};

use crate::{
    checkpoints, cleaning, confine,
    file::Opened,
    folder::Folder,
    journal::Journal,
    mover::{Mover, Worker},
    place,
    queue::Work,
    resume, space, talk, walk,
};

/// How long threads may take to end after a movement was stopped. One that hangs in the kernel is left behind.
const STOP: Duration = Duration::from_millis(1500);

/// Runs `datamover`: reads an order, carries it out, and tells how it ended.
#[must_use]
pub fn main() -> ExitCode {
    end_with_any_thread();
    let ended = match talk::order() {
        Ok(order) => carry_out(order),
        Err(error) => stopped(chain(&error)),
    };
    talk::tell(&Report::Ended(ended));
    // Threads that hang in the kernel are not waited for.
    std::process::exit(0)
}

/// Ends the process when a thread panics: the others would wait for its work. The agent starts a process that goes on.
fn end_with_any_thread() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(101);
    }));
}

fn stopped(reason: String) -> Ended {
    Ended { outcome: Outcome::Stopped(reason), progress: Progress::default() }
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
            cleaning::clean(&mover);
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
pub(crate) enum Source {
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
        cleaning::clean_small(mover);
    }
    if let Err(errno) = checkpoints::mark(mover, &target, &layout) {
        return Outcome::Stopped(format!("{destination}: {}", text(errno)));
    }
    if let Err(error) = talk::follow(Arc::downgrade(mover)) {
        return Outcome::Stopped(format!("start a thread: {error}"));
    }
    space::count(mover, &source);
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

/// Copies with all threads, and tells progress meanwhile.
fn run(mover: &Arc<Mover>, source: Source, target: File, layout: &Layout) {
    let marker = checkpoints::open_marker(mover, &target);
    hand_out(mover, source, target, layout);
    let threads: Vec<_> = (1..=mover.order.threads.max(1))
        .map(|slot| {
            let mover = mover.clone();
            thread::Builder::new().name(format!("copy {slot}")).spawn(move || {
                walk::work(&mover, &mut Worker::new(slot));
                mover.threads.add_ended();
            })
        })
        .filter_map(Result::ok)
        .collect();
    if threads.is_empty() {
        return mover.stop(Outcome::Stopped("no thread could be started".to_owned()));
    }
    if let Ok(marker) = marker {
        checkpoints::keep(mover, marker, threads.len());
    }
    watch(mover, threads.len());
}

/// Puts the first work into the queue.
fn hand_out(mover: &Arc<Mover>, source: Source, target: File, layout: &Layout) {
    let name = layout.name.as_deref().and_then(|name| CString::new(name).ok());
    let nothing = || target.try_clone();
    // The queue is empty: it takes the first work.
    let push = |work| drop(mover.queue.push(work));
    match (source, name) {
        (Source::Directory(source), None) => {
            let top = Folder::top(mover, source, target, &layout.directory);
            push(Work::Read(Arc::new(top)));
        }
        (Source::Directory(source), Some(name)) => {
            let Ok(unread) = nothing() else { return };
            let mut top = Folder::top(mover, unread, target, &layout.directory);
            cut_last(&mut top.source_path);
            match Arc::new(top).make(mover, source, &name) {
                Ok(folder) => push(Work::Read(Arc::new(folder))),
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
            if let Some(file) = open_file(mover, folder, source, name) {
                push(Work::File(Box::new(file)));
            }
        }
    }
}

fn cut_last(path: &mut Vec<u8>) {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    path.truncate(end);
}

fn open_file(
    mover: &Mover,
    folder: Arc<Folder>,
    source: File,
    name: Option<CString>,
) -> Option<Opened> {
    let from = mover.order.source.path.as_bytes().to_vec();
    match (fstat(&source), name) {
        (Ok(stat), Some(to)) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
            return Some(Opened { folder, from, to, source, stat });
        }
        (Err(errno), _) => mover.fail(&from, "open", errno),
        _ => mover.fail(&from, "copy what is neither a file nor a directory", Errno::INVAL),
    }
    None
}

/// Tells progress until all threads have ended, or do not end though they should.
fn watch(mover: &Mover, threads: usize) {
    let interval = Duration::from_millis(mover.order.interval.max(100));
    let mut told = None;
    while !mover.is_over() {
        if mover.threads.wait(threads, interval, || mover.is_over()) {
            return;
        }
        let now = mover.counters.progress();
        if told != Some(now) {
            talk::tell(&Report::Progress(now));
            mover.failures.flush();
            told = Some(now);
        }
    }
    mover.threads.wait(threads, STOP, || false);
}

/// Syncs the destination if that is ordered, and removes what is temporary.
fn finish(mover: &Mover) -> Outcome {
    if let Some(end) = mover.end() {
        cleaning::clean(mover);
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
    cleaning::clean(mover);
    Outcome::Done
}
