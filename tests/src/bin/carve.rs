//! Makes and deletes allocations on the NVMe drives of this computer, for guests of the lab. `carve allocate FIRST
//! COUNT` spreads each of COUNT allocations over all drives, `carve allocate-on-one FIRST COUNT` puts each on a single
//! drive, and `carve release FIRST COUNT` deletes them. `carve look 0 COUNT` observes the drives COUNT times. The program
//! prints the seconds that this took, the number of steps, and the seconds of processor time. With a third number, STEPS, the program kills itself at the end
//! of the step that began as number STEPS.

use std::{
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context;
use nix::{
    sys::{
        resource::{UsageWho, getrusage},
        signal::{Signal, kill},
        time::TimeVal,
    },
    unistd::Pid,
};
use storage::{
    Converger, Desired, Host, Observed, Step,
    desired::{Access, Allocation, AllocationId, AllowedRoots, Endpoint, Spread},
    host::{ObserveError, StepError},
};
use storage_linux::{DriveConfig, LinuxConfig, LinuxHost, LustreUnmount};
use tests::lab::report::{complain, say};

/// State directory with the records of allocations, the only data that a later run of this program finds.
const STATE: &str = "/var/tmp/carve";
/// Bytes of an allocation.
const CAPACITY: u64 = 1 << 30;
const DEADLINE: Duration = Duration::from_secs(120);

/// A host that kills its own process after the step with the number `last`.
#[derive(Debug)]
struct Mortal {
    host: LinuxHost,
    begun: AtomicUsize,
    last: Option<usize>,
}

impl Host for Mortal {
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        self.host.observe(desired)
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        let begun = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let outcome = self.host.apply(step);
        if Some(begun) == self.last {
            // At this moment, other drives may be in the middle of their steps.
            let _ = kill(Pid::this(), Signal::SIGKILL);
        }
        outcome
    }
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    match carve(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("carve: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn carve(words: &[String]) -> anyhow::Result<()> {
    let number = |place: usize| words.get(place).map(|word| word.parse::<usize>()).transpose();
    let (first, count, last) = (number(1)?, number(2)?, number(3)?);
    let (first, count) = (first.context("FIRST")?, count.context("COUNT")?);
    if words.first().is_some_and(|word| word == "look") {
        return look(count);
    }
    let desire: fn(Allocation) -> Desired = match words.first().map(String::as_str) {
        Some("allocate") => Desired::Allocated,
        Some("allocate-on-one") => {
            |allocation| Desired::Allocated(Allocation { spread: Spread::ONE, ..allocation })
        }
        Some("release") => |allocation| Desired::Released(allocation.id),
        _ => {
            anyhow::bail!("usage: carve allocate|allocate-on-one|release|look FIRST COUNT [STEPS]")
        }
    };
    let all = (first..first + count).map(|index| Ok(desire(allocation(u32::try_from(index)?)?)));
    let desired = all.collect::<anyhow::Result<Vec<_>>>()?;
    let host = Mortal { host: host()?, begun: AtomicUsize::new(0), last };
    let converger = Converger::new(Arc::new(host));
    // Sets up the virtual functions and observes the drives once before the measurement: neither is part of an
    // allocation.
    converger.converge(&Desired::Inventory)?;
    let (begun, busy) = (Instant::now(), processor_time()?);
    let mut steps = 0;
    for outcome in converger.converge_all(&desired) {
        steps += outcome?.steps.len();
    }
    print_cost(begun, busy, steps)
}

fn look(count: usize) -> anyhow::Result<()> {
    let host = host()?;
    host.observe(&Desired::Inventory)?;
    let (begun, busy) = (Instant::now(), processor_time()?);
    for _ in 0..count {
        host.observe(&Desired::Inventory)?;
    }
    print_cost(begun, busy, 0)
}

fn print_cost(begun: Instant, busy: f64, steps: usize) -> anyhow::Result<()> {
    let (elapsed, busy) = (begun.elapsed().as_secs_f64(), processor_time()? - busy);
    say(&format!("{elapsed} {steps} {busy}"));
    Ok(())
}

/// Returns the seconds of processor time that this process has used.
fn processor_time() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn allocation(index: u32) -> anyhow::Result<Allocation> {
    let owner = "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse()?;
    let rabbit = Access { endpoint: Endpoint::Rabbit, node: "rabbit".parse()? };
    let id = AllocationId { owner, index };
    Ok(Allocation::new(id, CAPACITY, Spread::RABBIT, [rabbit].into()))
}

fn host() -> anyhow::Result<LinuxHost> {
    let drives = DriveConfig::Nvme { node: "rabbit".parse()?, models: Vec::new() };
    Ok(LinuxHost::new(LinuxConfig {
        drives,
        roots: AllowedRoots::new([Path::new("/mnt/nnf").to_owned()])?,
        state: STATE.into(),
        command_deadline: DEADLINE,
        mount_deadline: DEADLINE,
        lustre_unmount: LustreUnmount::default(),
    })?)
}
