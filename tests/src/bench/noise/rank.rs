//! One rank of a job that computes: it repeats the same work, alone or with a barrier after each repetition.

use std::{
    fs,
    hint::black_box,
    io::ErrorKind,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

use crate::bench::row::say;

/// Rounds of the inner loop: about ten microseconds on the machines of 2026.
const WORK: u64 = 20_000;
/// Largest number of durations that a rank records. The rank touches the memory for all of them before it begins.
const MOST: usize = 16_000_000;

/// Distribution of the times of iterations, in microseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spread {
    /// Median: half of the iterations were faster.
    pub p50: f64,
    /// 99th percentile of the iterations' times.
    pub p99: f64,
    /// 99.9th percentile of the iterations' times.
    pub p999: f64,
}

/// Runs one rank. The arguments are the directory of the sockets, the rank's index, the number of ranks, the rank's
/// core, and the duration in milliseconds.
///
/// # Errors
/// When an argument is missing or no number, the rank cannot be pinned, or another rank fails.
pub fn run(words: &[String]) -> anyhow::Result<()> {
    let [directory, numbers @ ..] = words else { bail!("a rank needs a directory") };
    let numbers: Vec<usize> = numbers.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
    let [index, ranks, core, millis] = numbers[..] else { bail!("a rank needs four numbers") };
    pin(0, core)?;
    let length = Duration::from_millis(u64::try_from(millis)?);
    let barrier =
        (ranks > 1).then(|| Barrier::join(Path::new(directory), index, ranks)).transpose()?;
    let mut times = vec![u32::MAX; MOST];
    let count = iterate(&mut times, length, barrier.as_ref())?;
    say(&serde_json::to_string(&spread(&mut times[..count])).context("write the figures")?);
    Ok(())
}

/// Records how long each iteration took, in nanoseconds, and returns the number of iterations.
fn iterate(
    times: &mut [u32],
    length: Duration,
    barrier: Option<&Barrier>,
) -> anyhow::Result<usize> {
    let (begun, mut last) = (Instant::now(), Instant::now());
    for (count, time) in times.iter_mut().enumerate() {
        work();
        if let Some(barrier) = barrier
            && !barrier.wait(begun.elapsed() < length)?
        {
            return Ok(count);
        }
        let now = Instant::now();
        *time = u32::try_from((now - last).as_nanos()).unwrap_or(u32::MAX);
        last = now;
        if barrier.is_none() && now - begun > length {
            return Ok(count + 1);
        }
    }
    Ok(times.len())
}

fn work() {
    let mut state = black_box(1_u64);
    for turn in 0..WORK {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(turn);
    }
    black_box(state);
}

fn spread(times: &mut [u32]) -> Spread {
    times.sort_unstable();
    let at = |share: usize| {
        let place = (times.len() * share / 1000).min(times.len().saturating_sub(1));
        times.get(place).copied().map_or(0.0, f64::from) / 1000.0
    };
    Spread { p50: at(500), p99: at(990), p999: at(999) }
}

/// A barrier: ranks wait for each other without sleeping, as MPI's ranks do. Each rank sends a datagram to the first
/// rank, which answers all of them.
#[derive(Debug)]
struct Barrier {
    socket: UnixDatagram,
    others: Vec<PathBuf>,
    first: bool,
}

impl Barrier {
    fn join(directory: &Path, index: usize, ranks: usize) -> anyhow::Result<Self> {
        let path = |index: usize| directory.join(format!("rank-{index}"));
        // An earlier run may have left its socket at this path.
        let _ = fs::remove_file(path(index));
        let socket = UnixDatagram::bind(path(index)).context("bind a rank's socket")?;
        socket.set_nonblocking(true)?;
        let first = index == 0;
        let others = if first { (1..ranks).map(path).collect() } else { vec![path(0)] };
        Ok(Self { socket, others, first })
    }

    /// Waits for the other ranks, and returns whether there is another iteration. The first rank
    /// decides that by `go_on`.
    fn wait(&self, go_on: bool) -> anyhow::Result<bool> {
        if self.first {
            for _ in &self.others {
                self.receive()?;
            }
            self.send(u8::from(go_on))?;
            Ok(go_on)
        } else {
            self.send(1)?;
            Ok(self.receive()? == 1)
        }
    }

    fn send(&self, byte: u8) -> anyhow::Result<()> {
        for other in &self.others {
            // Repeats a failed send: at the beginning, the other rank may not have made its socket yet.
            while let Err(error) = self.socket.send_to(&[byte], other) {
                match error.kind() {
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::WouldBlock => {}
                    _ => return Err(error).context("send to a rank"),
                }
            }
        }
        Ok(())
    }

    fn receive(&self) -> anyhow::Result<u8> {
        let mut byte = [0];
        loop {
            match self.socket.recv(&mut byte) {
                Ok(_) => return Ok(byte[0]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                Err(error) => return Err(error).context("receive from a rank"),
            }
        }
    }
}

/// Binds a thread to a core; 0 means the calling thread.
///
/// # Errors
/// When there is no such thread or core.
pub fn pin(thread: i32, core: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(thread), &set).with_context(|| format!("pin to core {core}"))
}

/// Binds every thread of a process to a core.
///
/// # Errors
/// When the process has ended.
pub fn pin_all(pid: u32, core: usize) -> anyhow::Result<()> {
    for thread in fs::read_dir(format!("/proc/{pid}/task")).context("list the threads")? {
        pin(thread?.file_name().to_string_lossy().parse()?, core)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_taken_from_the_sorted_times() {
        let mut times: Vec<u32> = (1..=1000).rev().map(|time| time * 1000).collect();
        let spread = spread(&mut times);
        assert_eq!((spread.p50, spread.p99, spread.p999), (501.0, 991.0, 1000.0));
    }

    #[test]
    fn all_ranks_make_as_many_iterations_as_the_first_rank_decides() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        std::thread::scope(|scope| {
            let rank = |index| {
                move || {
                    let barrier = Barrier::join(path, index, 3).unwrap();
                    (0_u32..).find(|turn| !barrier.wait(*turn < 5).unwrap()).unwrap()
                }
            };
            let ranks = [0, 1, 2].map(|index| scope.spawn(rank(index)));
            assert_eq!(ranks.map(|rank| rank.join().unwrap()), [5; 3]);
        });
    }
}
