//! Interrupts the demo at different times, and checks that it leaves nothing behind.

use std::{path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tests::{
    gate,
    leftovers::leftovers,
    program::{binary, command, pause},
};

/// Times of the interrupts, in milliseconds after the start. The first is before the demo writes a file, the last
/// after its last mount.
const MOMENTS: [u64; 12] = [1, 20, 60, 200, 450, 700, 900, 1100, 1300, 1600, 2000, 2400];

#[test]
fn an_interrupt_at_any_moment_leaves_nothing() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    for (place, moment) in MOMENTS.into_iter().enumerate() {
        let signal = if place % 2 == 0 { Signal::SIGINT } else { Signal::SIGTERM };
        interrupt_demo_after(moment, signal)
            .with_context(|| format!("{signal} after {moment} ms"))?;
    }
    Ok(())
}

fn interrupt_demo_after(moment: u64, signal: Signal) -> anyhow::Result<()> {
    let directory = PathBuf::from(format!("/var/tmp/warren-interrupted-{}", std::process::id()));
    let mut argv = command(binary("demo")?);
    let mut demo = argv.arg(&directory).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    pause(Duration::from_millis(moment));
    kill(Pid::from_raw(i32::try_from(demo.id())?), signal).context("interrupt the demo")?;
    let _ = demo.wait()?;
    let output =
        std::io::read_to_string(demo.stderr.take().context("the demo has no standard error")?)?;
    let left = leftovers(&directory)?;
    ensure!(left.is_empty(), "left behind: {left:?}; the demo printed: {output}");
    ensure!(!directory.exists(), "{} is left; the demo printed: {output}", directory.display());
    Ok(())
}
