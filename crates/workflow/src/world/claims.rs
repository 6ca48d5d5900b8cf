//! Which coordinator makes the containers of which directive.

use std::collections::BTreeSet;

use api::ContainerRun;
use controller::Store;

use super::{Kept, Wake, World};
use crate::claims::Seen;

impl World {
    /// Takes in what the API said of coordinators' Leases. Who waits for a claim is planned again when that says something new.
    pub fn saw_leases(&mut self, seen: &Seen) -> Vec<Wake> {
        let status = self.runs.iter().filter_map(|run| run.status.as_ref());
        let holders: BTreeSet<String> = status.map(|status| status.claim.holder.clone()).collect();
        let is_new = self.site.claims.saw(seen, &holders);
        is_new.then_some(Wake::Waiting).into_iter().collect()
    }
}

impl Kept for ContainerRun {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.runs
    }
}
