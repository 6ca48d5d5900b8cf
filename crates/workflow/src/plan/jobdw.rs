//! `jobdw`: storage that lives as long as its job.

use api::WorkflowState;
use directive::Command;

use crate::{
    plan::{Driver, container, mounts, proposal, setup},
    progress::Progress,
    view::View,
};

/// Makes and mounts the storage of jobs.
#[derive(Clone, Copy, Debug)]
pub struct JobStorage;

impl Driver for JobStorage {
    fn takes(&self, command: &Command) -> bool {
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
            WorkflowState::Proposal => proposal::objects(view, index, jobdw),
            WorkflowState::Setup => setup::storage(view, index, jobdw),
            WorkflowState::PreRun => mounts::mounted(view, index, jobdw),
            WorkflowState::PostRun => {
                mounts::unmounted(view.site, &container::without_held(view, index))
            }
            // Teardown asks no directive.
            WorkflowState::DataIn
            | WorkflowState::DataOut
            | WorkflowState::Teardown
            | WorkflowState::Other(_) => Progress::default(),
        }
    }
}
