//! A system in which a mishap, a kill or a loss of power, hits a node after every step that the node's agent takes.

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

/// Deadline of one command of the workload manager, including the mishaps that happen during the command.
const COMMAND: Duration = Duration::from_secs(3600);

/// `warren`'s exit code for a condition that may become true later.
const NOT_YET: i32 = 3;

/// File with all steps that a node's agent has logged. The file lies in the directory that the node shares with the
/// host, so that it survives a loss of the node's power.
const STEPS_DONE: &str = "steps-seen";
/// File beside [`STEPS_DONE`] with the step after which the next mishap must happen.
const TAKEN: &str = "step-taken";

/// A mishap that hits a node.
#[derive(Debug, Clone, Copy)]
pub enum Mishap {
    /// The node's agent is killed, and started again.
    Kill,
    /// The node's computer loses power and is switched on again; the function restores the node
    /// before our programs start.
    PowerLoss(fn(&System, &str) -> anyhow::Result<()>),
}

/// A [`System`] in which a mishap hits a node after each new step of its agent: a step that the agent has not logged
/// since the last [`Self::begin`]. Steps are compared by their text in the log, so that a step that the agent repeats
/// after a loss of power does not cause the next loss.
#[derive(Debug)]
pub struct Afflicted {
    system: System,
    mishap: Mishap,
    mishaps: Cell<usize>,
}

impl Afflicted {
    /// Makes a system in which no mishap happens before [`Self::begin`].
    #[must_use]
    pub fn new(system: System, mishap: Mishap) -> Self {
        Self { system, mishap, mishaps: Cell::new(0) }
    }

    /// Returns the system that the mishaps hit.
    #[must_use]
    pub fn system(&self) -> &System {
        &self.system
    }

    /// Begins the mishaps: from now on every step that was not logged before causes a mishap.
    ///
    /// # Errors
    /// When the log of a node cannot be followed.
    pub fn begin(&self) -> anyhow::Result<()> {
        self.mishaps.set(0);
        self.system.nodes().iter().try_for_each(|node| {
            self.system.run(node, &format!("rm -f /lab/{STEPS_DONE}"))?;
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
touch $log /lab/{STEPS_DONE}
rm -f /lab/{TAKEN}
pkill -f "^tail .* $log" || true
from=$(($(wc -l < $log) + 1))
tail -n +$from -F $log 2>/dev/null | while IFS= read -r line; do
    case $line in *{STEP_TAKEN}*) ;; *) continue ;; esac
    step=${{line#*{STEP_TAKEN}}}
    step=${{step% seconds=*}}
    grep -qxFe "$step" /lab/{STEPS_DONE} && continue
    pkill -STOP -f '^/programs/{agent}'
    echo "$step" >> /lab/{STEPS_DONE}
    echo "$step" > /lab/{TAKEN}
    break
done >/dev/null 2>&1 &"#
        );
        self.system.run(node, &script).map(drop)
    }

    /// Lets a mishap hit every node whose agent is stopped after a step. Returns whether the rabbit lost its power.
    fn let_mishaps_happen(&self) -> anyhow::Result<bool> {
        let mut rabbit_was_off = false;
        for node in self.system.nodes() {
            let Some(step) = self.step_taken(&node)? else { continue };
            self.cause_mishap(&node).with_context(|| format!("{node} after{}", step.trim_end()))?;
            self.mishaps.set(self.mishaps.get() + 1);
            let was_off = matches!(self.mishap, Mishap::PowerLoss(_));
            rabbit_was_off |= was_off && node == self.chassis().rabbit;
        }
        Ok(rabbit_was_off)
    }

    fn cause_mishap(&self, node: &str) -> anyhow::Result<()> {
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

    /// Runs a command on the rabbit to its end, while mishaps hit the rabbit and the other nodes. Returns
    /// `None` if the rabbit's loss of power ended the command, or if the command must be repeated because of a
    /// mishap on another node.
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
        until("a command to end", COMMAND, || match self.let_mishaps_happen() {
            Err(error) => Ok(Err(error)),
            Ok(true) => Ok(Ok(None)),
            Ok(false) => match self.system.guest(&self.chassis().rabbit).output_if_ended(job)? {
                None => bail!("the command still runs"),
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
