//! ContainerRuns, and the Leases of the coordinators that claim them.

use std::collections::BTreeSet;

use api::ContainerRun;
use controller::Store;

use super::{Wake, WatchedKind, World};
use crate::claims::LeaseStates;

impl World {
    /// Takes in the state of the coordinators' Leases. Wakes workflows that wait for a claim if a holder
    /// expired or came back.
    pub fn take_leases(&mut self, states: &LeaseStates) -> Vec<Wake> {
        let status = self.runs.iter().filter_map(|run| run.status.as_ref());
        let holders: BTreeSet<String> = status.map(|status| status.claim.holder.clone()).collect();
        let is_new = self.site.claims.take(states, &holders);
        is_new.then_some(Wake::Waiting).into_iter().collect()
    }
}

impl WatchedKind for ContainerRun {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.runs
    }
}
