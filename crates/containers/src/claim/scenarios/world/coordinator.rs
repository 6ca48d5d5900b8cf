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

/// A coordinator's process.
#[derive(Clone, Debug)]
pub(in crate::claim::scenarios) struct Coordinator {
    pub(in crate::claim::scenarios) pod: String,
    pub(in crate::claim::scenarios) me: Holder,
    lease: OwnLease,
    sightings: Sightings,
    renewals: u64,
    /// The run, as it read it last.
    pub(in crate::claim::scenarios) cached: Option<ContainerRun>,
    /// The highest epoch of another for which a rabbit refused it.
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

    /// One that is there: it has renewed its Lease at this time.
    pub(in crate::claim::scenarios) fn there(
        pod: &str,
        server: &mut Server,
        now: Duration,
    ) -> Self {
        let mut coordinator = Self::new(pod, "1");
        coordinator.tick(server, now);
        coordinator
    }

    /// Renews its Lease, looks at those of others and reads the run, if the API is there.
    pub(in crate::claim::scenarios) fn tick(&mut self, server: &mut Server, now: Duration) {
        if server.is_away {
            return;
        }
        self.renewals += 1;
        server.leases.insert(self.me.as_str().to_owned(), self.renewals.to_string());
        self.lease.renewed(now);
        self.read(server);
        let status = self.cached.as_ref().and_then(|run| run.status.as_ref());
        let holder = status.map(|status| status.claim.holder.as_str());
        self.sightings.look(holder, &server.leases, now);
    }

    pub(in crate::claim::scenarios) fn read(&mut self, server: &Server) {
        self.cached = server.get();
    }

    pub(in crate::claim::scenarios) fn may_act(&self, now: Duration) -> bool {
        self.lease.may_act(now)
    }

    /// What it would do next, from what it read last.
    pub(in crate::claim::scenarios) fn plans(&self, rabbits: &[Rabbit], now: Duration) -> Step {
        let run = self.cached.as_ref().expect("it has read the run");
        let holder = run.status.as_ref().map(|status| status.claim.holder.clone());
        let rabbits: Vec<OnRabbit> = rabbits.iter().map(|rabbit| rabbit.seen(run)).collect();
        let view = View {
            me: &self.me,
            may_act: self.may_act(now),
            holder_expired: holder.is_some_and(|holder| self.sightings.is_expired(&holder)),
            refused_with: self.refused_with,
            rabbits: &rabbits,
        };
        plan(run, &view)
    }

    /// Carries its next step out.
    pub(in crate::claim::scenarios) fn step(
        &mut self,
        server: &mut Server,
        rabbits: &mut [Rabbit],
        now: Duration,
    ) -> Result<Step, Refused> {
        let mut step = self.plans(rabbits, now);
        // Nothing is ended or removed by what a watch brought.
        if matches!(step, Step::Stop | Step::CleanUp) {
            if server.is_away {
                return Err(Refused::Away);
            }
            self.read(server);
            let again = self.plans(rabbits, now);
            step = if again == step { step } else { Step::Wait };
        }
        if let Step::Write(status) = &step {
            let read = self.cached.clone().expect("it has read the run");
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

    /// Steps until there is nothing to do.
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
        panic!("there is always more to do: {:?}", server.run());
    }

    /// The claim that it believes to have.
    pub(in crate::claim::scenarios) fn claim(&self) -> Record {
        let status = self.cached.as_ref().and_then(|run| run.status.clone());
        let (epoch, attempt) = status.map_or((0, 0), |status| (status.claim.epoch, status.attempt));
        Record { holder: self.me.as_str().to_owned(), epoch, attempt }
    }

    /// Sends one rabbit a command, which is on its way for so long.
    pub(in crate::claim::scenarios) fn command(
        &mut self,
        server: &Server,
        rabbit: &mut Rabbit,
        step: &Step,
        age: Duration,
    ) -> Verdict {
        let by = self.claim();
        let verdict = rabbit.hear(server, &Command { by, age, is_sync: false }, step);
        if let Verdict::Stale(kept) = &verdict
            && kept.holder != self.me.as_str()
        {
            self.refused_with = self.refused_with.max(kept.epoch);
        }
        if verdict == Verdict::NotSynced {
            let by = self.claim();
            rabbit.hear(server, &Command { by, age, is_sync: true }, &Step::Wait);
        }
        verdict
    }
}
