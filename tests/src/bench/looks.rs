//! What one observation of a rabbit costs: time, system calls and programs, with 18 drives in files and 64 allocations.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use storage::{
    Converger, Desired, Host,
    desired::{Access, Allocation, AllocationId, AllowedRoots, Endpoint, Spread},
};
use storage_linux::{DriveConfig, LinuxConfig, LinuxHost, LustreUnmount};

use super::{Row, row::say};
use crate::program;

const DRIVES: u16 = 18;
const ALLOCATIONS: u32 = 64;
/// Bytes of an allocation.
const CAPACITY: u64 = 64 << 20;
const DEADLINE: Duration = Duration::from_secs(60);
/// Number of looks that are timed, and that are traced.
const TIMED: u32 = 200;
const TRACED: u32 = 20;

/// Makes the allocations beneath `directory`, measures looks at them, and deletes the allocations.
pub(super) fn measure(directory: &Path) -> anyhow::Result<Vec<Row>> {
    say(&format!("looks at {DRIVES} drives with {ALLOCATIONS} allocations"));
    fs::create_dir_all(directory).context("make the directory")?;
    converge_all(directory, Desired::Allocated)?;
    let measured = measure_looks(directory);
    converge_all(directory, |allocation| Desired::Released(allocation.id))?;
    measured
}

fn measure_looks(directory: &Path) -> anyhow::Result<Vec<Row>> {
    let begun = Instant::now();
    look(directory, TIMED)?;
    let a_second = f64::from(TIMED) / begun.elapsed().as_secs_f64();
    // The calls of a process that does not look are those of its start and end.
    let (none, some) = (traced(directory, 0)?, traced(directory, TRACED)?);
    let each = |count: fn(&Calls) -> usize| {
        (count(&some) as f64 - count(&none) as f64) / f64::from(TRACED)
    };
    Ok(vec![
        Row::plain("looks at a rabbit a second", a_second, "/s"),
        Row::plain("system calls of a look", each(|calls| calls.all), ""),
        Row::plain(
            "system calls of a look, for each allocation",
            each(|calls| calls.all) / f64::from(ALLOCATIONS),
            "",
        ),
        Row::plain("programs that a look starts", each(|calls| calls.programs), ""),
    ])
}

/// Observes the drives and namespaces `count` times.
///
/// # Errors
/// When the node cannot be observed, or does not have all allocations.
pub fn look(directory: &Path, count: u32) -> anyhow::Result<()> {
    let host = host(directory)?;
    for _ in 0..count {
        let observed = host.observe(&Desired::Inventory).context("observe")?;
        let (drives, namespaces) = (observed.drives.len(), observed.namespaces.len());
        ensure!(drives == usize::from(DRIVES), "{drives} drives");
        ensure!(namespaces == usize::try_from(ALLOCATIONS)?, "{namespaces} namespaces");
    }
    Ok(())
}

/// Numbers of system calls.
struct Calls {
    all: usize,
    programs: usize,
}

/// Counts the system calls of a process that looks `count` times.
fn traced(directory: &Path, count: u32) -> anyhow::Result<Calls> {
    let (trace, bench) = (directory.join("trace"), std::env::current_exe()?);
    let ended = program::command("strace")
        .args(["-f", "-qq", "-o"])
        .arg(&trace)
        .arg(bench)
        .arg("look")
        .arg(directory)
        .arg(count.to_string())
        .status()
        .context("start strace")?;
    ensure!(ended.success(), "the traced process: {ended}");
    let text = fs::read_to_string(&trace).context("read the trace")?;
    // A call that another thread interrupts in the trace has a second line, `<... NAME resumed>`.
    let calls = text.lines().filter(|line| line.contains('(') && !line.contains(" resumed>"));
    let (programs, all): (Vec<_>, Vec<_>) = calls.partition(|line| line.contains(" execve("));
    Ok(Calls { all: all.len() + programs.len(), programs: programs.len() })
}

fn converge_all(directory: &Path, desire: fn(Allocation) -> Desired) -> anyhow::Result<()> {
    let desired: Vec<_> = (0..ALLOCATIONS)
        .map(|index| Ok(desire(allocation(index)?)))
        .collect::<anyhow::Result<_>>()?;
    let converger = Converger::new(std::sync::Arc::new(host(directory)?));
    converger.converge_all(&desired).into_iter().try_for_each(|outcome| outcome.map(drop))?;
    Ok(())
}

fn allocation(index: u32) -> anyhow::Result<Allocation> {
    let owner = "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse()?;
    let rabbit = Access { endpoint: Endpoint::Rabbit, node: "rabbit-1".parse()? };
    Ok(Allocation::new(AllocationId { owner, index }, CAPACITY, Spread::ONE, [rabbit].into()))
}

fn host(directory: &Path) -> anyhow::Result<LinuxHost> {
    let drives = DriveConfig::File {
        pool: directory.join("pool"),
        node: "rabbit-1".parse()?,
        drives: DRIVES,
        drive_capacity: 16 << 30,
    };
    Ok(LinuxHost::new(LinuxConfig {
        drives,
        roots: AllowedRoots::new([directory.join("mnt")])?,
        state: directory.join("state"),
        command_deadline: DEADLINE,
        mount_deadline: DEADLINE,
        lustre_unmount: LustreUnmount::default(),
    })?)
}
