//! `jobdw`: storage that lives as long as its job.

use api::WorkflowState;
use directive::{Command, FileSystem, Jobdw};

use crate::{
    plan::{Driver, mounts, proposal, setup},
    progress::{Progress, user},
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
            WorkflowState::Proposal => propose(view, index, jobdw),
            WorkflowState::Setup => setup::storage(view, index, jobdw),
            WorkflowState::PreRun => mounts::mounted(view, index, jobdw),
            WorkflowState::PostRun => mounts::unmounted(view.site, &view.directives[index].storage),
            // Teardown asks no directive.
            WorkflowState::DataIn
            | WorkflowState::DataOut
            | WorkflowState::Teardown
            | WorkflowState::Other(_) => Progress::default(),
        }
    }
}

fn propose(view: &View<'_>, index: usize, jobdw: &Jobdw) -> Progress {
    if jobdw.file_system == FileSystem::Lustre {
        return Progress::failed(user(
            "argument type=lustre: this version of Warren's engine makes raw, xfs and gfs2; write one of them",
        ));
    }
    proposal::objects(view, index, jobdw)
}
