//! A system in which a mishap hits a node after every step that its agent takes.

use std::{cell::Cell, fs, io::ErrorKind, path::PathBuf, time::Duration};

use anyhow::{Context, bail};

use super::{
    System,
    job::{Job, Output},
    system::STEP_TAKEN,
};
use crate::{
    centre::Chassis,
    program::until,
    run::{Machines, prepare_repetition},
};

/// Deadline of one command of the workload manager, with the mishaps during it.
const COMMAND: Duration = Duration::from_secs(3600);

/// `warren`'s exit code for a condition that may become true later.
const NOT_YET: i32 = 3;

/// Names of files of a node, in the directory that it shares with the host: they survive a loss of its power.
const SEEN: &str = "steps-seen";
const TAKEN: &str = "step-taken";

/// What happens to a node.
#[derive(Debug, Clone, Copy)]
pub enum Mishap {
    /// Its agent is killed, and started again.
    Kill,
    /// Its computer loses power and is switched on again; the function restores it before our programs are started.
    PowerLoss(fn(&System, &str) -> anyhow::Result<()>),
}

/// A [`System`] whose nodes meet a mishap after each step that their agents have not logged since the last
/// [`Self::begin`]; then they continue. A step is known by its text in the log, so that a step that is repeated after
/// each loss of power does not cause the next.
#[derive(Debug)]
pub struct Afflicted {
    system: System,
    mishap: Mishap,
    mishaps: Cell<usize>,
}

impl Afflicted {
    /// Makes a system without mishaps until [`Self::begin`].
    #[must_use]
    pub fn new(system: System, mishap: Mishap) -> Self {
        Self { system, mishap, mishaps: Cell::new(0) }
    }

    /// Returns the system that the mishaps hit.
    #[must_use]
    pub fn system(&self) -> &System {
        &self.system
    }

    /// Begins the mishaps: from now on every step that was not logged before causes one.
    ///
    /// # Errors
    /// When the log of a node cannot be followed.
    pub fn begin(&self) -> anyhow::Result<()> {
        self.mishaps.set(0);
        self.system.nodes().iter().try_for_each(|node| {
            self.system.run(node, &format!("rm -f /lab/{SEEN}"))?;
            self.watch(node)
        })
    }

    /// Returns the number of mishaps since the beginning.
    #[must_use]
    pub fn mishaps(&self) -> usize {
        self.mishaps.get()
    }

    /// Follows a node's log, and stops its agent (SIGSTOP) after the next step that it has not logged before.
    fn watch(&self, node: &str) -> anyhow::Result<()> {
        let agent = self.system.agent(node);
        let script = format!(
            r#"log=/var/log/{agent}.log
touch $log /lab/{SEEN}
rm -f /lab/{TAKEN}
pkill -f "^tail .* $log" || true
from=$(($(wc -l < $log) + 1))
tail -n +$from -F $log 2>/dev/null | while IFS= read -r line; do
    case $line in *{STEP_TAKEN}*) ;; *) continue ;; esac
    step=${{line#*{STEP_TAKEN}}}
    step=${{step% seconds=*}}
    grep -qxFe "$step" /lab/{SEEN} && continue
    pkill -STOP -f '^/programs/{agent}'
    echo "$step" >> /lab/{SEEN}
    echo "$step" > /lab/{TAKEN}
    break
done >/dev/null 2>&1 &"#
        );
        self.system.run(node, &script).map(drop)
    }

    /// Hits every node whose agent has taken a step; returns whether the rabbit lost its power.
    fn befall(&self) -> anyhow::Result<bool> {
        let mut rabbit_was_off = false;
        for node in self.system.nodes() {
            let Some(step) = self.step_taken(&node)? else { continue };
            self.strike(&node).with_context(|| format!("{node} after{}", step.trim_end()))?;
            self.mishaps.set(self.mishaps.get() + 1);
            let was_off = matches!(self.mishap, Mishap::PowerLoss(_));
            rabbit_was_off |= was_off && node == self.chassis().rabbit;
        }
        Ok(rabbit_was_off)
    }

    fn strike(&self, node: &str) -> anyhow::Result<()> {
        match self.mishap {
            Mishap::Kill => {
                let kill = format!("pkill -KILL -f '^/programs/{}'", self.system.agent(node));
                self.system.run(node, &kill)?;
            }
            Mishap::PowerLoss(back) => {
                self.system.guest(node).lose_power()?;
                back(&self.system, node)?;
                self.system.prepare(node)?;
            }
        }
        self.watch(node)?;
        self.system.start_agent(node)
    }

    fn step_taken(&self, node: &str) -> anyhow::Result<Option<String>> {
        match fs::read_to_string(self.file(node, TAKEN)) {
            Ok(step) => Ok(Some(step)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context("read which step was taken"),
        }
    }

    fn file(&self, node: &str, name: &str) -> PathBuf {
        self.system.guest(node).exchange().join(name)
    }

    /// Runs a command on the rabbit to its end, while mishaps hit the rabbit and the other nodes. Returns none when the
    /// command was lost with the rabbit's power, or has to be repeated because of a mishap elsewhere.
    fn attempt(&self, words: &[&str]) -> anyhow::Result<Option<String>> {
        let before = self.mishaps();
        let job = self.system.guest(&self.chassis().rabbit).start(&self.system.warren(words))?;
        let Some(output) = self.outcome(job)? else { return Ok(None) };
        if output.code == NOT_YET && self.mishaps() > before {
            return Ok(None);
        }
        output.ok(&words.join(" ")).map(Some)
    }

    fn outcome(&self, job: Job) -> anyhow::Result<Option<Output>> {
        until("a command to end", COMMAND, || match self.befall() {
            Err(error) => Ok(Err(error)),
            Ok(true) => Ok(Ok(None)),
            Ok(false) => match self.system.guest(&self.chassis().rabbit).output_if_ended(job)? {
                None => bail!("it runs"),
                output => Ok(Ok(output)),
            },
        })?
    }
}

impl Machines for Afflicted {
    fn chassis(&self) -> &Chassis {
        self.system.chassis()
    }

    fn connected_nodes(&self) -> Vec<String> {
        self.system.connected_nodes()
    }

    fn hand_over(&self, name: &str, bytes: &[u8]) -> anyhow::Result<String> {
        self.system.hand_over(name, bytes)
    }

    fn warren_prints(&self, words: &[&str]) -> anyhow::Result<String> {
        let mut words = words.to_vec();
        loop {
            if let Some(printed) = self.attempt(&words)? {
                return Ok(printed);
            }
            prepare_repetition(&mut words);
        }
    }

    fn run_on(&self, node: &str, id: u32, script: &str) -> anyhow::Result<String> {
        self.system.run_on(node, id, script)
    }
}
