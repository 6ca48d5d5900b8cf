//! Removes mounts that no object asks for, after a start of the agent.

use std::{sync::Arc, time::Instant};

use storage::{Desired, desired::MountPoint};
use tokio::task::JoinError;

use super::Agent;
use crate::kinds::client_mount;

impl Agent {
    /// Returns whether the clean-up may start: only while no pass runs. A running pass may be about to make a mount
    /// that the clean-up would regard as unwanted.
    pub(super) fn may_clean_up(&self) -> bool {
        self.passes.is_empty()
    }

    /// Removes unwanted mounts. An unmount that hangs delays only passes that touch the same mounts.
    pub(super) fn start_clean_up(&mut self) {
        let Some(keep) = self.points_to_keep() else { return };
        self.clean_up.begin();
        self.mounts_to_keep = keep.iter().cloned().collect();
        let context = Arc::clone(&self.context);
        self.cleaning_up.spawn(async move {
            let cleaned_up = context.converge(vec![Desired::OnlyMounts(keep)]).await;
            let removed = cleaned_up.into_iter().try_for_each(|result| result.map(drop));
            removed.map_err(|error| daemon::chain(&error))
        });
    }

    /// Returns the mount points that objects may use; `None` if the agent cannot determine them.
    fn points_to_keep(&mut self) -> Option<Vec<MountPoint>> {
        let keep = client_mount::start::points_to_keep(
            &self.cache,
            &self.context.site,
            &self.context.temporary,
        );
        if let Err(why) = &keep
            && self.clean_up.postpone(why)
        {
            log::warn!("mounts that no object asks for are not removed: {why}");
        }
        keep.ok()
    }

    pub(super) fn clean_up_ended(&mut self, cleaned_up: Result<Result<(), String>, JoinError>) {
        match cleaned_up {
            // The converger catches panics of the clean-up's own work, so this panic is a defect of the task around it.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
            Ok(Ok(())) => self.clean_up.record_success(),
            Ok(Err(why)) => {
                if self.clean_up.record_failure(&why, Instant::now()) {
                    log::warn!("remove mounts that no object asks for: {why}");
                }
            }
        }
    }
}
