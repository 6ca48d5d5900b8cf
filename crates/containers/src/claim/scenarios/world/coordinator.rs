//! A coordinator: it reads, plans and acts, as the executor of `workflow::claims` does with a real API.

use std::time::Duration;

use api::ContainerRun;

use super::{Rabbit, Refused, Server, seconds};
use crate::claim::{
    Holder,
    leases::{OwnLease, Sightings},
    plan::{OnRabbit, Step, View, plan},
    scenarios::fence::{Command, Record, Verdict},
};

/// A process of a coordinator.
#[derive(Clone, Debug)]
pub(in crate::claim::scenarios) struct Coordinator {
    pub(in crate::claim::scenarios) pod: String,
    pub(in crate::claim::scenarios) me: Holder,
    lease: OwnLease,
    sightings: Sightings,
    renewals: u64,
    /// The run, as last read.
    pub(in crate::claim::scenarios) cached: Option<ContainerRun>,
    /// The highest epoch of another holder with which a rabbit refused a command.
    refused_with: i64,
}

impl Coordinator {
    pub(in crate::claim::scenarios) fn new(pod: &str, nonce: &str) -> Self {
        Self {
            pod: pod.to_owned(),
            me: Holder::new(pod, nonce),
            lease: OwnLease::default(),
            sightings: Sightings::default(),
            renewals: 0,
            cached: None,
            refused_with: 0,
        }
    }

    /// Creates a coordinator that has renewed its Lease at this time.
    pub(in crate::claim::scenarios) fn alive(
        pod: &str,
        server: &mut Server,
        now: Duration,
    ) -> Self {
        let mut coordinator = Self::new(pod, "1");
        coordinator.tick(server, now);
        coordinator
    }

    /// Renews the Lease, lists those of others and reads the run, if the API is reachable.
    pub(in crate::claim::scenarios) fn tick(&mut self, server: &mut Server, now: Duration) {
        if server.is_away {
            return;
        }
        self.renewals += 1;
        server.leases.insert(self.me.as_str().to_owned(), self.renewals.to_string());
        self.lease.record_renewal(now);
        self.read(server);
        let status = self.cached.as_ref().and_then(|run| run.status.as_ref());
        let holder = status.map(|status| status.claim.holder.as_str());
        self.sightings.record(holder, &server.leases, now);
    }

    pub(in crate::claim::scenarios) fn read(&mut self, server: &Server) {
        self.cached = server.get();
    }

    pub(in crate::claim::scenarios) fn may_act(&self, now: Duration) -> bool {
        self.lease.may_act(now)
    }

    /// Plans the next step from the run as last read.
    pub(in crate::claim::scenarios) fn planned_step(
        &self,
        rabbits: &[Rabbit],
        now: Duration,
    ) -> Step {
        let run = self.cached.as_ref().expect("the coordinator has read the run");
        let holder = run.status.as_ref().map(|status| status.claim.holder.clone());
        let rabbits: Vec<OnRabbit> = rabbits.iter().map(|rabbit| rabbit.report(run)).collect();
        let view = View {
            me: &self.me,
            may_act: self.may_act(now),
            holder_expired: holder.is_some_and(|holder| self.sightings.is_expired(&holder)),
            refused_with: self.refused_with,
            rabbits: &rabbits,
        };
        plan(run, &view)
    }

    /// Does the next step.
    pub(in crate::claim::scenarios) fn step(
        &mut self,
        server: &mut Server,
        rabbits: &mut [Rabbit],
        now: Duration,
    ) -> Result<Step, Refused> {
        let mut step = self.planned_step(rabbits, now);
        // A coordinator reads the run again before it ends or removes containers: a watch may be behind.
        if matches!(step, Step::Stop | Step::CleanUp) {
            if server.is_away {
                return Err(Refused::Away);
            }
            self.read(server);
            let again = self.planned_step(rabbits, now);
            step = if again == step { step } else { Step::Wait };
        }
        if let Step::Write(status) = &step {
            let read = self.cached.clone().expect("the coordinator has read the run");
            let written = server.write(&self.pod, &read, status.clone());
            if !server.is_away {
                self.read(server);
            }
            written?;
        } else if step != Step::Wait {
            for rabbit in rabbits.iter_mut() {
                self.command(server, rabbit, &step, seconds(0));
            }
        }
        Ok(step)
    }

    /// Does steps until nothing is left to do.
    pub(in crate::claim::scenarios) fn settle(
        &mut self,
        server: &mut Server,
        rabbits: &mut [Rabbit],
        now: Duration,
    ) {
        for _ in 0..20 {
            self.read(server);
            if self.step(server, rabbits, now) == Ok(Step::Wait) {
                return;
            }
        }
        panic!("the run does not settle: {:?}", server.run());
    }

    /// Returns the claim that the coordinator believes to have.
    pub(in crate::claim::scenarios) fn claim(&self) -> Record {
        let status = self.cached.as_ref().and_then(|run| run.status.clone());
        let (epoch, attempt) = status.map_or((0, 0), |status| (status.claim.epoch, status.attempt));
        Record { holder: self.me.as_str().to_owned(), epoch, attempt }
    }

    /// Sends a command to one rabbit, which receives it after `age`.
    pub(in crate::claim::scenarios) fn command(
        &mut self,
        server: &Server,
        rabbit: &mut Rabbit,
        step: &Step,
        age: Duration,
    ) -> Verdict {
        let by = self.claim();
        let verdict = rabbit.receive(server, &Command { by, age, is_sync: false }, step);
        if let Verdict::Stale(kept) = &verdict
            && kept.holder != self.me.as_str()
        {
            self.refused_with = self.refused_with.max(kept.epoch);
        }
        if verdict == Verdict::NotSynced {
            let by = self.claim();
            rabbit.receive(server, &Command { by, age, is_sync: true }, &Step::Wait);
        }
        verdict
    }
}
