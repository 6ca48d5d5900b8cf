use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::lab::{Bench, Drive, Guest, Machine, functions::unallocated, machine::GIB, report::say};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "allocations",
    about: "times one allocation over 16 drives, one on a single drive, and 16 at once; the carver is killed 16 times; no byte is lost",
    run,
};

const STEP: Duration = Duration::from_secs(1800);

const DRIVES: usize = 16;

/// Milliseconds that an emulated drive takes for each step, as a real drive does. The scenario can then tell waits
/// for drives from computing.
const LATENCY: u32 = 250;

/// Number of looks that are timed.
const LOOKS: u32 = 10;

/// Number of steps to make an allocation, and to delete it: on each drive a namespace is made and attached,
/// or detached and deleted.
const STEPS: usize = 2 * DRIVES;

fn run(bench: &Bench) -> anyhow::Result<()> {
    let drive = Drive { namespaces: 16, latency: LATENCY, ..Drive::new(2 * GIB) };
    let drives = vec![drive; DRIVES];
    let machine = Machine { drives, memory: 2048, ..Machine::plain("rabbit") };
    let mut guest = Guest::boot(bench, machine)?;
    let empty = unallocated(&mut guest, 0..DRIVES)?;
    ensure!(empty == vec![2 * GIB; DRIVES], "bytes that drives have before: {empty:?}");

    let Carved { seconds: single, steps, busy: busy_on_one } =
        carve(&mut guest, "allocate-on-one 0 1")?;
    ensure!(steps == 2, "an allocation on one drive took {steps} steps");
    carve(&mut guest, "release 0 1")?;
    let Carved { seconds: one, steps, busy } = carve(&mut guest, "allocate 0 1")?;
    ensure!(steps == STEPS, "one allocation took {steps} steps");
    let share = GIB / 16;
    ensure!(
        unallocated(&mut guest, 0..DRIVES)? == vec![2 * GIB - share; DRIVES],
        "the allocation is not spread evenly"
    );
    carve(&mut guest, "release 0 1")?;
    let Carved { seconds: sixteen, steps, .. } = carve(&mut guest, "allocate 0 16")?;
    ensure!(steps == 16 * STEPS, "sixteen allocations took {steps} steps");
    let left = unallocated(&mut guest, 0..DRIVES)?;
    ensure!(left == vec![2 * GIB - 16 * share; DRIVES], "bytes that drives have left: {left:?}");
    let looks = carve(&mut guest, &format!("look 0 {LOOKS}"))?;
    let calls = calls_of_a_look(&mut guest)?;
    carve(&mut guest, "release 0 16")?;
    ensure!(unallocated(&mut guest, 0..DRIVES)? == empty, "not all bytes are free again");
    say(&format!(
        "   a look at {DRIVES} drives with 256 namespaces: {:.1} a second, {calls} system calls",
        f64::from(LOOKS) / looks.seconds
    ));
    say(&format!(
        "   processor time of the carver: {busy_on_one:.2} s on one drive, {busy:.2} s over {DRIVES}"
    ));
    say(&format!(
        "   each step takes a drive {LATENCY} ms. One allocation on one drive: {single:.2} s; over {DRIVES}: {one:.2} s, {:.1} times that; \
         sixteen over {DRIVES}: {sixteen:.2} s, {:.1} times one over {DRIVES}",
        one / single,
        sixteen / one
    ));
    deaths(&mut guest, &empty)
}

/// Makes and deletes an allocation several times. In each round the program `carve` dies after another step (1, 5, 9
/// and so on), and is started again.
fn deaths(guest: &mut Guest, empty: &[u64]) -> anyhow::Result<()> {
    for last in (1..=STEPS).step_by(4) {
        for (what, left) in [("allocate 0 1", 2 * GIB - GIB / 16), ("release 0 1", 2 * GIB)] {
            let killed = format!("/programs/carve {what} {last} && exit 1; [ $? = 137 ]");
            guest.run(&killed, STEP).with_context(|| format!("{what}, dying after {last}"))?;
            carve(guest, what).with_context(|| format!("{what}, died after {last}"))?;
            let now = unallocated(guest, 0..DRIVES)?;
            ensure!(now == vec![left; DRIVES], "{what}, died after {last}: {now:?} are left");
        }
    }
    ensure!(unallocated(guest, 0..DRIVES)? == empty, "not all bytes are free again");
    Ok(())
}

/// What the carver printed.
struct Carved {
    seconds: f64,
    steps: usize,
    /// Seconds of processor time.
    busy: f64,
}

/// Makes or deletes allocations, or looks at the drives.
fn carve(guest: &mut Guest, what: &str) -> anyhow::Result<Carved> {
    let output = guest.run(&format!("/programs/carve {what}"), STEP)?;
    let words: Vec<_> = output.split_whitespace().collect();
    let [seconds, steps, busy] = words[..] else { bail!("carve printed {output:?}") };
    Ok(Carved { seconds: seconds.parse()?, steps: steps.parse()?, busy: busy.parse()? })
}

/// Counts the system calls of the carver's process; those of its start and end are left out.
fn calls_of_a_look(guest: &mut Guest) -> anyhow::Result<usize> {
    let mut count = |looks: u32| -> anyhow::Result<usize> {
        let traced = format!(
            "strace -f -qq -o /tmp/trace /programs/carve look 0 {looks} >/dev/null; grep -c '(' /tmp/trace"
        );
        Ok(guest.run(&traced, STEP)?.trim().parse()?)
    };
    let (few, more) = (count(1)?, count(2)?);
    Ok(more - few)
}
