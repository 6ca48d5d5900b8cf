//! The clean-up: removes mounts that no object requests.

use std::{sync::Arc, time::Instant};

use agent::error::Failure;
use storage::{Desired, desired::MountPoint};

use super::{Agent, WorkerResult};

impl Agent {
    /// Returns whether the clean-up may start: only while no worker runs, because the clean-up could regard a mount
    /// that a worker is making as unwanted.
    pub(super) fn may_clean_up(&self) -> bool {
        self.workers.is_empty()
    }

    pub(super) fn start_clean_up(&mut self) {
        let Some(keep) = self.paths_to_keep() else { return };
        self.clean_up.begin();
        self.kept_paths = keep.iter().cloned().collect();
        let converger = Arc::clone(&self.converger);
        self.workers.spawn_blocking(move || {
            let cleaned_up = converger.converge(&Desired::OnlyMounts(keep));
            WorkerResult::CleanUp(
                cleaned_up.map(drop).map_err(|error| Failure::of_convergence(&error)),
            )
        });
    }

    /// Returns every path at which an object, or an earlier version of an object, may have a mount. If an object cannot
    /// be read, returns `None` and postpones the clean-up.
    fn paths_to_keep(&mut self) -> Option<Vec<MountPoint>> {
        let keep = self.objects.possible_paths();
        if keep.is_none() {
            let why = "an object cannot be read, so its mounts are not known";
            if self.clean_up.postpone(why) {
                log::warn!("the clean-up of unwanted mounts waits: {why}");
            }
        }
        keep
    }

    pub(super) fn end_clean_up(&mut self, result: Result<(), Failure>, now: Instant) {
        match result {
            Ok(()) => self.clean_up.record_success(),
            Err(failure) => {
                let text = failure.debug;
                if self.clean_up.record_failure(&text, now) {
                    log::warn!("unwanted mounts remain: {text}");
                }
            }
        }
    }
}
