//! The steps that make drives ready, before a unit is planned.

use std::collections::BTreeMap;

use causes::chain;
use log::warn;

use crate::{
    Desired, Host, Observed, Step,
    desired::Nqn,
    execute::{ExecuteError, prepare_each},
    plan::prepare,
};

/// The preparation of one call of [`Converger::converge`](super::Converger::converge). Each step is tried once: a drive
/// that cannot be made ready counts as faulty, so that the unit is planned without it.
#[derive(Debug, Default)]
pub(super) struct Preparation {
    tried: Vec<Step>,
    failed: BTreeMap<Nqn, String>,
}

impl Preparation {
    /// Takes the preparing steps that were not tried yet; returns whether there were any, and the node must therefore be
    /// observed again.
    pub(super) fn take(
        &mut self,
        host: &dyn Host,
        desired: &Desired,
        observed: &Observed,
        done: &mut Vec<Step>,
    ) -> bool {
        let mut steps = prepare(desired, observed);
        steps.retain(|step| !self.tried.contains(step));
        if steps.is_empty() {
            return false;
        }
        self.tried.extend(steps.iter().cloned());
        for failure in prepare_each(host, steps, done) {
            self.enter(&failure);
        }
        true
    }

    fn enter(&mut self, failure: &ExecuteError) {
        match &*failure.step {
            Step::PrepareDrive { drive, action } if action.is_vital() => {
                self.failed.insert(drive.clone(), chain(failure));
            }
            _ => warn!("{}", chain(failure)),
        }
    }

    /// Marks as faulty the drives that could not be made ready, and the drives that still lack what a step should have
    /// brought. The observation then shows their namespaces like those of a drive that does not answer: without hosts and
    /// without a device.
    pub(super) fn leave_out(&self, desired: &Desired, observed: &mut Observed) {
        let mut faults = self.failed.clone();
        for step in prepare(desired, observed).iter().filter(|step| self.tried.contains(step)) {
            if let Step::PrepareDrive { drive, action } = step
                && action.is_vital()
            {
                faults.entry(drive.clone()).or_insert_with(|| format!("{step}: it had no effect"));
            }
        }
        for drive in observed.drives.iter_mut().filter(|drive| drive.fault.is_none()) {
            drive.fault = faults.get(&drive.nqn).cloned();
        }
        for namespace in &mut observed.namespaces {
            if faults.contains_key(&namespace.id.subsystem) {
                (namespace.access, namespace.device) = (Default::default(), None);
            }
        }
    }
}
