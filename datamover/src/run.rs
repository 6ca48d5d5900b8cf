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

/// How long `datamover` waits for its threads after a movement was stopped. A thread may hang in the kernel.
const STOP_PATIENCE: Duration = Duration::from_millis(1500);

/// Runs `datamover`: reads an order, carries it out, and reports how it ended.
#[must_use]
pub fn main() -> ExitCode {
    exit_when_a_thread_panics();
    let ended = match talk::read_order() {
        Ok(order) => carry_out(order),
        Err(error) => stopped(chain(&error)),
    };
    talk::report(&Report::Ended(ended));
    // Does not wait for threads that hang in the kernel.
    std::process::exit(0)
}

/// Ends the process when a thread panics: the other threads would wait forever for the work that the thread had taken.
/// The agent then starts a process that continues the movement.
fn exit_when_a_thread_panics() {
    let print_panic = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print_panic(panic);
        std::process::exit(101);
    }));
}

fn stopped(reason: String) -> Ended {
    Ended { outcome: Outcome::Stopped(reason), progress: Progress::default() }
}

/// Opens the files that only root may open, changes to the user's ids, and copies or cleans up.
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
    let action = |path: &Path| format!("open {}", path.display());
    let (journal, log) = Journal::open(&order.state)
        .map_err(|error| format!("{}: {error}", action(&order.state)))?;
    let failures = failures(&order.state.join("failures"))
        .map_err(|error| format!("{}: {error}", action(&order.state)))?;
    let open = |place: &Place| {
        place::root(&place.root)
            .map_err(|errno| format!("{}: {}", action(&place.root), text(errno)))
    };
    let root = open(&order.destination)?;
    // The removal of temporary files needs no source, which may hang.
    let source = match order.task {
        Task::Copy => open(&order.source)?,
        Task::Clean => root.try_clone().map_err(|error| format!("duplicate a file: {error}"))?,
    };
    confine::become_user(&order.user).map_err(|error| chain(&error))?;
    confine::restrict(&source, &root).map_err(|error| chain(&error))?;
    let resume = (!log.is_empty()).then(|| resume::read(&log, journal.boot()));
    let is_within = fstat(&source).ok().zip(fstat(&root).ok());
    let is_within = is_within.is_some_and(|(source, root)| source.st_dev == root.st_dev);
    let mut mover = Mover::new(order, root, failures, journal, resume);
    mover.is_within_one_file_system = is_within;
    mover.shares_blocks = is_within.into();
    Ok((Arc::new(mover), source))
}

/// Opens the list of failures and empties it: this run tries again what failed in an earlier run.
fn failures(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.custom_flags(nix::libc::O_NOFOLLOW).open(path)
}

fn text(errno: Errno) -> String {
    io::Error::from(errno).to_string()
}

/// The opened source of a movement.
pub(crate) enum Source {
    /// The contents of a directory, or the directory itself.
    Directory(File),
    File(File),
}

fn copy(mover: &Arc<Mover>, root: &File) -> Outcome {
    let (source, layout) = match open_source(mover, root) {
        Ok(source_and_layout) => source_and_layout,
        Err(reason) => return Outcome::Stopped(reason),
    };
    let destination = format!("destination {:?}", mover.order.destination.path);
    let creates = mover.order.creates_directories;
    let target = match place::open_or_create(&mover.root, &layout.directory, creates) {
        Ok(target) => target,
        Err(errno) => return Outcome::Stopped(format!("{destination}: {}", text(errno))),
    };
    if mover.resume.is_some() {
        cleaning::clean_small(mover);
    }
    if let Err(errno) = checkpoints::record_start(mover, &target, &layout) {
        return Outcome::Stopped(format!("{destination}: {}", text(errno)));
    }
    if let Err(error) = talk::follow_changes(Arc::downgrade(mover)) {
        return Outcome::Stopped(format!(
            "start the thread that reads changes of the order: {error}"
        ));
    }
    space::count(mover, &source);
    if mover.end().is_none() {
        run(mover, source, target, &layout);
    }
    finish(mover)
}

/// Opens the source, and decides the directory and the name of its copy.
fn open_source(mover: &Mover, root: &File) -> Result<(Source, Layout), String> {
    let order = &mover.order;
    let (from, to) = (&order.source.path, &order.destination.path);
    let source = |errno| format!("source {from:?}: {}", text(errno));
    let kind = place::kind(root, from).map_err(source)?;
    let destination_kind = place::kind(&mover.root, to)
        .map_err(|errno| format!("destination {to:?}: {}", text(errno)))?;
    let index = order.index_directory.as_deref();
    let layout = layout::layout((from, kind), (to, destination_kind), index)
        .map_err(|error| format!("copy {from:?} to {to:?}: {error}"))?;
    let opened = match kind {
        Kind::Directory => place::directory(root, from).map(Source::Directory),
        Kind::File | Kind::Absent => place::file(root, from).map(Source::File),
    };
    Ok((opened.map_err(source)?, layout))
}

/// Copies with all threads, and reports progress meanwhile.
fn run(mover: &Arc<Mover>, source: Source, target: File, layout: &Layout) {
    let marker = checkpoints::open_marker(mover, &target);
    queue_first(mover, source, target, layout);
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
        return mover.stop(Outcome::Stopped("no thread that copies could be started".to_owned()));
    }
    if let Ok(marker) = marker {
        checkpoints::start_thread(mover, marker, threads.len());
    }
    watch(mover, threads.len());
}

/// Puts the first work into the queue.
fn queue_first(mover: &Arc<Mover>, source: Source, target: File, layout: &Layout) {
    let name = layout.name.as_deref().and_then(|name| CString::new(name).ok());
    // Fills the field `source` of a folder whose source is never read.
    let placeholder = || target.try_clone();
    // The queue is empty, so the push does not fail.
    let push = |work| drop(mover.queue.push(work));
    match (source, name) {
        (Source::Directory(source), None) => {
            let top = Folder::top(mover, source, target, &layout.directory);
            push(Work::Read(Arc::new(top)));
        }
        (Source::Directory(source), Some(name)) => {
            let Ok(unread) = placeholder() else { return };
            let mut top = Folder::top(mover, unread, target, &layout.directory);
            remove_last_component(&mut top.source_path);
            match Arc::new(top).create(mover, source, &name) {
                Ok(mut folder) => {
                    if mover.order.share.is_some() {
                        folder.stay_writable();
                    }
                    push(Work::Read(Arc::new(folder)));
                }
                Err(errno) => {
                    mover.fail_write(
                        mover.order.source.path.as_bytes(),
                        "copy the directory",
                        errno,
                    );
                }
            }
        }
        (Source::File(_), _) if !mover.copies_single_file() => {}
        (Source::File(source), name) => {
            let Ok(unread) = placeholder() else { return };
            let folder = Arc::new(Folder::top(mover, unread, target, &layout.directory));
            if let Some(file) = open_file(mover, folder, source, name) {
                push(Work::File(Box::new(file)));
            }
        }
    }
}

fn remove_last_component(path: &mut Vec<u8>) {
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
        _ => {
            mover.fail(
                &from,
                "copy, as the source is neither a file nor a directory",
                Errno::INVAL,
            );
        }
    }
    None
}

/// Reports progress until all threads have ended. After the movement was stopped, waits at most `STOP_PATIENCE` for
/// them.
fn watch(mover: &Mover, threads: usize) {
    let interval = Duration::from_millis(mover.order.interval.max(100));
    let mut reported = None;
    while !mover.is_over() {
        if mover.threads.wait(threads, interval, || mover.is_over()) {
            return;
        }
        let now = mover.counters.progress();
        if reported != Some(now) {
            talk::report(&Report::Progress(now));
            mover.failures.flush();
            reported = Some(now);
        }
    }
    mover.threads.wait(threads, STOP_PATIENCE, || false);
}

/// Syncs the destination if the order says so, and removes temporary files.
fn finish(mover: &Mover) -> Outcome {
    if let Some(outcome) = mover.end() {
        cleaning::clean(mover);
        return outcome.clone();
    }
    if mover.order.syncs
        && let Err(errno) = syncfs(&mover.root)
    {
        return Outcome::Stopped(format!(
            "sync the destination to stable storage: {}",
            text(errno)
        ));
    }
    cleaning::clean(mover);
    Outcome::Done
}
