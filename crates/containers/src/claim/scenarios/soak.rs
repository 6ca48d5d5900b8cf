//! S3.3: many runs on four rabbits under all faults at once. Every 2 s one of three coordinators is killed. A tenth of
//! the API calls fail; of these, some fail after the write was stored. Rabbits fall silent, receive commands late and
//! twice, or lose their disks. At the end the test checks the history of each run. With `LONG=1` there are 200 runs.

use api::{ContainerRunPhase as Phase, ContainerRunStatus as Status};

use super::world::{Coordinator, Rabbit, Refused, Server, seconds};
use crate::claim::{
    plan::{RabbitState, Step},
    scenarios::fence::{Command, Journal, Verdict},
};

/// Seconds within which a run must end.
const MAX_SECONDS: u64 = 100_000;
const NAMES: [&str; 4] = ["r1", "r2", "r3", "r4"];
const PODS: [&str; 3] = ["c1", "c2", "c3"];

struct Draw(u64);

impl Draw {
    fn random_below(&mut self, below: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below).unwrap()
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.random_below(many) == 0
    }
}

/// A write that a process sent before it was killed: time of arrival, pod, the run as the process read it, the status.
type InFlight = (u64, String, api::ContainerRun, Status);

struct Soak {
    draw: Draw,
    server: Server,
    rabbits: Vec<Rabbit>,
    coordinators: Vec<Coordinator>,
    /// For each rabbit, the second at which its silence ends.
    silent: Vec<u64>,
    in_flight: Vec<InFlight>,
    /// Commands that arrive late, each with: the second of its arrival, the rabbit, the command, the step.
    late: Vec<(u64, usize, Command, Step)>,
    started: usize,
    refused: Refusals,
}

#[derive(Debug, Default)]
struct Refusals {
    conflicts: usize,
    by_rules: usize,
    by_rabbits: usize,
    lost_answers: usize,
}

impl Soak {
    fn new(seed: u64) -> Self {
        let mut server = Server::new(&NAMES);
        let coordinators = PODS.map(|pod| Coordinator::alive(pod, &mut server, seconds(0))).into();
        Self {
            draw: Draw(0x2545_f491_4f6c_dd1d ^ (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            server,
            rabbits: NAMES.map(Rabbit::new).into(),
            coordinators,
            silent: vec![0; NAMES.len()],
            in_flight: Vec::new(),
            late: Vec::new(),
            started: PODS.len(),
            refused: Refusals::default(),
        }
    }

    fn second(&mut self, now: u64) {
        if now.is_multiple_of(2) {
            self.kill(now);
        }
        for index in 0..PODS.len() {
            self.server.is_away = self.draw.one_in(20);
            self.server.loses_answers = self.draw.one_in(20);
            if now % 5 == index as u64 || !self.coordinators[index].may_act(seconds(now)) {
                self.coordinators[index].tick(&mut self.server, seconds(now));
            } else if self.draw.one_in(2) && !self.server.is_away {
                self.coordinators[index].read(&self.server);
            }
            self.act(index, now);
        }
        (self.server.is_away, self.server.loses_answers) = (false, false);
        self.arrive(now);
        (0..NAMES.len()).for_each(|rabbit| self.step_rabbit(rabbit, now));
    }

    /// Kills a coordinator and starts a new process in its place. A write or a command that the killed process
    /// sent may still arrive.
    fn kill(&mut self, now: u64) {
        let index = self.draw.random_below(PODS.len() as u64);
        let dead = &self.coordinators[index];
        if let (Some(read), true) = (dead.cached.clone(), dead.may_act(seconds(now))) {
            let at = now + self.draw.random_below(60) as u64;
            match dead.planned_step(&self.rabbits, seconds(now)) {
                Step::Write(status) => {
                    self.in_flight.push((at, dead.pod.clone(), read, status));
                }
                Step::Wait => {}
                step => {
                    let command =
                        Command { by: dead.claim(), age: seconds(at - now), is_sync: false };
                    self.late.extend(
                        (0..NAMES.len()).map(|rabbit| (at, rabbit, command.clone(), step.clone())),
                    );
                }
            }
        }
        self.started += 1;
        self.coordinators[index] = Coordinator::new(PODS[index], &self.started.to_string());
    }

    fn act(&mut self, index: usize, now: u64) {
        let coordinator = &mut self.coordinators[index];
        if coordinator.cached.is_none() {
            return;
        }
        match coordinator.step(&mut self.server, &mut self.rabbits, seconds(now)) {
            Err(Refused::Conflict) => self.refused.conflicts += 1,
            Err(Refused::By(_)) => self.refused.by_rules += 1,
            Err(Refused::Away) => {
                self.refused.lost_answers += usize::from(self.server.loses_answers);
            }
            Ok(step) => {
                // A command may arrive twice; the second time it arrives late.
                if !matches!(step, Step::Wait | Step::Write(_)) && self.draw.one_in(5) {
                    let (wait, by) =
                        (self.draw.random_below(8) as u64, self.coordinators[index].claim());
                    let command = Command { by, age: seconds(wait), is_sync: false };
                    let to = self.draw.random_below(NAMES.len() as u64);
                    self.late.push((now + wait, to, command, step));
                }
            }
        }
    }

    fn arrive(&mut self, now: u64) {
        let is_due = |at: u64| at <= now;
        for (_, pod, read, status) in self.in_flight.extract_if(.., |write| is_due(write.0)) {
            match self.server.write(&pod, &read, status) {
                Err(Refused::Conflict) => self.refused.conflicts += 1,
                Err(Refused::By(_)) => self.refused.by_rules += 1,
                Err(Refused::Away) | Ok(()) => {}
            }
        }
        for (_, index, command, step) in self.late.extract_if(.., |command| is_due(command.0)) {
            let verdict = self.rabbits[index].receive(&self.server, &command, &step);
            let is_refused =
                matches!(verdict, Verdict::Stale(_) | Verdict::Forged | Verdict::TooOld);
            self.refused.by_rabbits += usize::from(is_refused);
        }
    }

    /// Changes the state of a rabbit's container by chance. Rarely, the container fails, or the rabbit falls silent or
    /// gets a new disk.
    fn step_rabbit(&mut self, index: usize, now: u64) {
        let rabbit = &mut self.rabbits[index];
        if rabbit.is_silent && self.silent[index] <= now {
            rabbit.comes_back(&self.server);
        } else if self.draw.one_in(200) {
            rabbit.is_silent = true;
            self.silent[index] = now + self.draw.random_below(60) as u64;
        } else if self.draw.one_in(50_000) {
            rabbit.journal = Journal::Lost;
            rabbit.attempts.clear();
        }
        let latest = rabbit.attempts.values().next_back().cloned();
        let next = match latest {
            Some(RabbitState::Starting) if self.draw.one_in(5) => RabbitState::Ready,
            Some(RabbitState::Ready) if self.draw.one_in(5_000) => {
                RabbitState::Failed("exit 1".to_owned())
            }
            Some(RabbitState::Ready) if self.draw.one_in(50) => RabbitState::Succeeded,
            _ => return,
        };
        self.rabbits[index].becomes(next);
    }

    /// Continues until the run has ended and all its containers are removed.
    fn run_to_end(&mut self, seed: u64) {
        let cancelled =
            if seed.is_multiple_of(4) { self.draw.random_below(3_000) as u64 } else { MAX_SECONDS };
        for now in 1..MAX_SECONDS {
            let is_over = self.server.run().status.is_some_and(|status| status.phase.is_final());
            if self.server.run().spec.priority > 0 && (is_over || now > cancelled) {
                self.server.want(|spec| spec.priority = 0);
            }
            self.second(now);
            let mut attempts = self.rabbits.iter().flat_map(|rabbit| rabbit.attempts.values());
            if is_over && attempts.all(|state| *state == RabbitState::Nothing) {
                return;
            }
        }
        panic!("seed {seed}: the run does not end: {:?}", self.server.run());
    }
}

#[test]
fn under_all_faults_each_run_has_one_holder_and_one_attempt_at_a_time_and_one_end() {
    let runs = if std::env::var_os("LONG").is_some() { 200 } else { 20 };
    let mut refused = Refusals::default();
    let mut ends = std::collections::BTreeMap::<String, usize>::new();
    for seed in 0..runs {
        let mut soak = Soak::new(seed);
        soak.run_to_end(seed);
        let history = &soak.server.history;
        for (before, after) in history.iter().zip(&history[1..]) {
            let (old, new) = (&before.claim, &after.claim);
            assert!(old.epoch < new.epoch || old == new, "{seed}: {before:?} {after:?}");
        }
        let mut finals: Vec<&Phase> =
            history.iter().map(|status| &status.phase).filter(|phase| phase.is_final()).collect();
        finals.dedup();
        assert_eq!(finals.len(), 1, "{seed}: {finals:?}");
        *ends.entry(finals[0].to_string()).or_default() += 1;
        for rabbit in &soak.rabbits {
            assert!(rabbit.side_by_side <= 1, "{seed}: two attempts on {}", rabbit.name);
        }
        refused.conflicts += soak.refused.conflicts;
        refused.by_rules += soak.refused.by_rules;
        refused.by_rabbits += soak.refused.by_rabbits;
        refused.lost_answers += soak.refused.lost_answers;
    }
    assert!(
        refused.conflicts > 0 && refused.by_rabbits > 0,
        "{refused:?}: no write or no command was refused"
    );
    assert!(refused.lost_answers > 0, "{refused:?}");
    assert!(ends.len() > 1, "all runs end in the same phase: {ends:?}");
}
