//! A rabbit: its records, and the state of the containers of each attempt.

use std::collections::{BTreeMap, BTreeSet};

use api::ContainerRun;

use super::Server;
use crate::claim::{
    plan::{OnRabbit, RabbitState, Step},
    scenarios::fence::{Command, Confirmation, Journal, Record, Verdict, confirms, is_leftover},
};

/// A rabbit with its agent and the containers of the run.
#[derive(Clone, Debug)]
pub(in crate::claim::scenarios) struct Rabbit {
    pub(in crate::claim::scenarios) name: String,
    pub(in crate::claim::scenarios) journal: Journal,
    /// The state of each attempt on the rabbit.
    pub(in crate::claim::scenarios) attempts: BTreeMap<i32, RabbitState>,
    pub(in crate::claim::scenarios) is_silent: bool,
    pub(in crate::claim::scenarios) is_lost: bool,
    /// Whether the rabbit can ask a coordinator other than the sender.
    pub(in crate::claim::scenarios) asks: bool,
    /// Number of commands that the rabbit refused as stale.
    pub(in crate::claim::scenarios) stale: usize,
    /// Epochs of the claims under which the rabbit received the step to prepare.
    pub(in crate::claim::scenarios) prepared_for: BTreeSet<i64>,
    /// The highest number of attempts that ran on the rabbit at the same time.
    pub(in crate::claim::scenarios) side_by_side: usize,
}

impl Rabbit {
    pub(in crate::claim::scenarios) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            journal: Journal::Empty,
            attempts: BTreeMap::new(),
            is_silent: false,
            is_lost: false,
            asks: true,
            stale: 0,
            prepared_for: BTreeSet::new(),
            side_by_side: 0,
        }
    }

    /// Returns the rabbit's report to a coordinator.
    pub(super) fn report(&self, run: &ContainerRun) -> OnRabbit {
        let attempt = run.status.as_ref().map_or(0, |status| status.attempt);
        let state = match (self.is_lost, self.is_silent) {
            (true, _) => RabbitState::Lost,
            (false, true) => RabbitState::Unknown,
            (false, false) => self.attempts.get(&attempt).cloned().unwrap_or(RabbitState::Nothing),
        };
        OnRabbit { name: self.name.clone(), state }
    }

    /// Sets the state of the latest attempt.
    pub(in crate::claim::scenarios) fn becomes(&mut self, state: RabbitState) {
        let latest = self.attempts.values_mut().next_back().expect("there is an attempt");
        *latest = state;
        self.count_running();
    }

    /// Ends the rabbit's silence: its agent asks the API which of its attempts are still wanted.
    pub(in crate::claim::scenarios) fn comes_back(&mut self, server: &Server) {
        self.is_silent = false;
        let run = server.get();
        self.attempts.retain(|attempt, _| !is_leftover(run.as_ref(), *attempt));
    }

    pub(in crate::claim::scenarios) fn receive(
        &mut self,
        server: &Server,
        command: &Command,
        step: &Step,
    ) -> Verdict {
        if self.is_silent || self.is_lost {
            return Verdict::TooOld;
        }
        let mut verdict = self.journal.judge(command, Confirmation::NotAsked);
        if verdict == Verdict::Ask {
            let answer = match (self.asks, confirms(server.get().as_ref(), &command.by)) {
                (false, _) => Confirmation::NoOtherCoordinator,
                (true, true) => Confirmation::Confirmed,
                (true, false) => Confirmation::Denied,
            };
            verdict = self.journal.judge(command, answer);
        }
        match &verdict {
            Verdict::Obey(record) => {
                self.journal = Journal::Kept(record.clone());
                self.attempts.retain(|attempt, _| *attempt == record.attempt);
                self.obey(record, step);
            }
            Verdict::Stale(_) => self.stale += 1,
            Verdict::Ask | Verdict::TooOld | Verdict::NotSynced | Verdict::Forged => {}
        }
        verdict
    }

    fn obey(&mut self, record: &Record, step: &Step) {
        let here = self.attempts.get(&record.attempt).cloned().unwrap_or(RabbitState::Nothing);
        let state = match (step, here) {
            (Step::Prepare, RabbitState::Nothing) => {
                self.prepared_for.insert(record.epoch);
                RabbitState::Prepared
            }
            (Step::Start, RabbitState::Prepared) => RabbitState::Starting,
            (Step::Stop, RabbitState::Prepared | RabbitState::Preparing) | (Step::CleanUp, _) => {
                RabbitState::Nothing
            }
            (Step::Stop, RabbitState::Starting | RabbitState::Ready) => {
                RabbitState::Failed("ended".to_owned())
            }
            (_, here) => here,
        };
        self.attempts.insert(record.attempt, state);
        self.count_running();
    }

    fn count_running(&mut self) {
        let runs =
            |state: &&RabbitState| matches!(state, RabbitState::Starting | RabbitState::Ready);
        self.side_by_side = self.side_by_side.max(self.attempts.values().filter(runs).count());
    }
}
