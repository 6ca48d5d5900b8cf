//! `jobdw`: storage that lives as long as its job.

use api::WorkflowState;
use directive::Command;

use crate::{
    objects::view::View,
    plan::{Driver, container, copies, mounts, proposal, setup},
    progress::Progress,
};

/// Creates and mounts the storage of `jobdw` directives.
#[derive(Clone, Copy, Debug)]
pub struct JobStorage;

impl Driver for JobStorage {
    fn handles(&self, command: &Command) -> bool {
        matches!(command, Command::Jobdw(_))
    }

    fn advance(
        &self,
        view: &View<'_>,
        index: usize,
        command: &Command,
        state: &WorkflowState,
    ) -> Progress {
        let Command::Jobdw(jobdw) = command else { return Progress::default() };
        match state {
            WorkflowState::Proposal => proposal::create_objects(view, index, jobdw),
            WorkflowState::Setup => setup::set_up_storage(view, index, jobdw),
            WorkflowState::PreRun => mounts::mount_storage(view, index, jobdw),
            WorkflowState::PostRun => mounts::unmount_and_withdraw(
                view.site,
                &container::without_mounts_in_use(view, index),
            ),
            WorkflowState::DataIn | WorkflowState::DataOut => {
                copies::mount_for_copies(view, index, jobdw, state)
            }
            // Teardown is planned in `plan::tear_down_all`, without the drivers.
            WorkflowState::Teardown | WorkflowState::Other(_) => Progress::default(),
        }
    }
}
