//! Shows Warren's main job on one computer: `warren run` makes storage, mounts it on three computes, runs a command
//! there, and removes everything. While the command runs, the rabbit mounts all allocations below one directory.

pub mod job;
pub mod screen;
pub mod story;

use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::{Context, ensure};
use nix::unistd::geteuid;
use tokio::{
    sync::oneshot::{self, error::TryRecvError},
    time::sleep,
};

use crate::{
    centre::{Chassis, Job},
    cluster::Cluster,
    leftovers::{clear, leftovers},
    program::{adopt_orphans, end_children, interrupt, kill_children},
    run::Run,
};
use screen::Screen;

/// Runs all chapters beneath `directory`, and then checks that no mount, loop device, process or file is left.
///
/// # Errors
/// When a chapter fails; the programs' logs are kept, and the message names them.
pub fn run(directory: &Path) -> anyhow::Result<()> {
    ensure!(
        geteuid().is_root(),
        "root is needed: the kernel allows loop devices and mounts of block devices only with CAP_SYS_ADMIN; use sudo"
    );
    adopt_orphans()?;
    let mut screen = Screen::new();
    clear(directory).context("delete the files that an earlier run left")?;
    let chassis = Chassis::new(3);
    screen.chapter("start a coordinator, a rabbit and three computes");
    let cluster = Cluster::start(directory, chassis)?;
    screen.print(&format!("logs are in {} until all is done", cluster.logs().display()));
    let job = Job::new(1, "xfs", &cluster.mount_root());
    let mut run = Run { cluster, job, narrator: screen, patient: false };
    story::run_chapters(&mut run)?;
    run.narrator.chapter("stop the programs");
    run.cluster.stop()?;
    nothing_left(directory)?;
    run.narrator.summary();
    Ok(())
}

fn nothing_left(directory: &Path) -> anyhow::Result<()> {
    let left = leftovers(directory)?;
    ensure!(left.is_empty(), "left behind:\n  {}", left.join("\n  "));
    clear(directory)?;
    ensure!(!directory.exists(), "left behind: {}", directory.display());
    Ok(())
}

/// Prints the usage to stderr.
#[must_use]
pub fn usage(default: &Path) -> ExitCode {
    screen::complain(&format!(
        "usage: demo [DIRECTORY]\n  runs the main job beneath DIRECTORY, which is made and removed [default: {}]",
        default.display()
    ));
    ExitCode::from(2)
}

/// Prints the outcome, and returns the exit code.
#[must_use]
pub fn farewell(outcome: Option<anyhow::Result<()>>, directory: &Path) -> ExitCode {
    match outcome {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            let logs = directory.join("logs");
            screen::complain(&format!(
                "demo failed: {error:#}\nlogs are in {}; the next run clears them away",
                logs.display()
            ));
            ExitCode::FAILURE
        }
        None => {
            screen::complain("demo failed: its thread ended without a result");
            ExitCode::FAILURE
        }
    }
}

/// Handles Ctrl-C: stops all programs, removes their files, and prints a message. `story` gets a value when the
/// demo's thread has ended.
pub async fn handle_interrupt(
    mut story: oneshot::Receiver<anyhow::Result<()>>,
    directory: &Path,
) -> ExitCode {
    screen::complain("interrupted: stopping the programs and removing what they made");
    interrupt();
    // Kills the programs that the demo waits for. It does so repeatedly, because the demo may start more until its
    // thread ends.
    while matches!(story.try_recv(), Err(TryRecvError::Empty)) {
        kill_children();
        sleep(Duration::from_millis(20)).await;
    }
    // Kills the job's commands too: they still run after `warren run`, which started them, was killed.
    end_children();
    match clear(directory) {
        Ok(()) => ExitCode::from(130),
        Err(error) => {
            screen::complain(&format!("could not remove everything: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
