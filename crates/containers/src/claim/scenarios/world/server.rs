//! The API: one run, its versions, and the rules.

use std::collections::BTreeMap;

use api::{
    ContainerRun, ContainerRunPhase as Phase, ContainerRunSpec, ContainerRunStatus as Status,
};

use crate::claim::rules::{Part, Rule, refusals};

/// Why the API refused a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::claim::scenarios) enum Refused {
    Conflict,
    By(Vec<Rule>),
    Away,
}

/// The API: one run, and the coordinators' Leases.
#[derive(Clone, Debug)]
pub(in crate::claim::scenarios) struct Server {
    run: Option<ContainerRun>,
    version: u64,
    pub(super) leases: BTreeMap<String, String>,
    pub(in crate::claim::scenarios) is_away: bool,
    /// Whether the API stores writes but its answers do not arrive.
    pub(in crate::claim::scenarios) loses_answers: bool,
    /// Every status that was stored.
    pub(in crate::claim::scenarios) history: Vec<Status>,
}

impl Server {
    pub(in crate::claim::scenarios) fn new(rabbits: &[&str]) -> Self {
        let spec = ContainerRunSpec {
            rabbits: rabbits.iter().map(|&rabbit| rabbit.to_owned()).collect(),
            priority: 1,
            suspend: false,
            max_claim_attempts: 10,
        };
        let run = Some(ContainerRun::new("run", spec));
        let (leases, history) = (BTreeMap::new(), Vec::new());
        let (is_away, loses_answers) = (false, false);
        let mut server = Self { run, version: 0, leases, is_away, loses_answers, history };
        server.raise_version();
        server
    }

    fn raise_version(&mut self) {
        self.version += 1;
        if let Some(run) = &mut self.run {
            run.metadata.resource_version = Some(self.version.to_string());
        }
    }

    /// Reads the run from a quorum.
    pub(in crate::claim::scenarios) fn get(&self) -> Option<ContainerRun> {
        self.run.clone()
    }

    pub(in crate::claim::scenarios) fn run(&self) -> ContainerRun {
        self.get().expect("the run is there")
    }

    pub(in crate::claim::scenarios) fn status(&self) -> Status {
        self.run().status.expect("the run has a status")
    }

    pub(in crate::claim::scenarios) fn phase(&self) -> Phase {
        self.status().phase
    }

    pub(in crate::claim::scenarios) fn delete(&mut self) {
        self.run = None;
    }

    pub(in crate::claim::scenarios) fn want(&mut self, change: impl FnOnce(&mut ContainerRunSpec)) {
        change(&mut self.run.as_mut().expect("the run is there").spec);
        self.raise_version();
    }

    /// Writes the status over the run that was read, as a process of this pod.
    pub(in crate::claim::scenarios) fn write(
        &mut self,
        pod: &str,
        read: &ContainerRun,
        status: Status,
    ) -> Result<(), Refused> {
        if read.metadata.resource_version != self.run().metadata.resource_version {
            return Err(Refused::Conflict);
        }
        self.write_blindly(pod, status)
    }

    /// Writes the status over any version, as a merge patch does.
    pub(in crate::claim::scenarios) fn write_blindly(
        &mut self,
        pod: &str,
        status: Status,
    ) -> Result<(), Refused> {
        if self.is_away {
            return Err(Refused::Away);
        }
        let run = self.run.as_mut().expect("the run is there");
        let refused = refusals(run.status.as_ref(), Some(&status), Part::Status(Some(pod)));
        if !refused.is_empty() {
            return Err(Refused::By(refused));
        }
        run.status = Some(status.clone());
        self.history.push(status);
        self.raise_version();
        if self.loses_answers { Err(Refused::Away) } else { Ok(()) }
    }

    /// Restores a backup of all that the API stores.
    pub(in crate::claim::scenarios) fn restore(&mut self, backup: &Self) {
        let version = self.version + 1;
        *self = Self { version, ..backup.clone() };
        self.raise_version();
    }
}
