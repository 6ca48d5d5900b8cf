//! The units of work of one ClientMount: a unit is one mount or one index tree, with the state to reach.

use api::{ClientMount, client_mount::MountState};
use storage::{
    Desired,
    desired::{IndexTree, Mount, MountPoint},
};

use super::{MountError, MountProblem, ObjectError};

/// The state that an object asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// All mounts of the object are mounted.
    Mounted,
    /// No mount of the object is mounted.
    Unmounted,
}

impl Goal {
    /// Returns the goal of an object. The goal of an object that is being deleted is
    /// `Unmounted`, whatever `spec.desiredState` says.
    pub fn of(client_mount: &ClientMount) -> Result<Self, ObjectError> {
        if client_mount.metadata.deletion_timestamp.is_some() {
            return Ok(Self::Unmounted);
        }
        match &client_mount.spec.desired_state {
            MountState::Mounted => Ok(Self::Mounted),
            MountState::Unmounted => Ok(Self::Unmounted),
            MountState::Other(state) => Err(ObjectError::UnknownDesiredState(state.clone())),
        }
    }

    /// Returns the goal as a value of `spec.desiredState`.
    pub fn state(self) -> MountState {
        match self {
            Self::Mounted => MountState::Mounted,
            Self::Unmounted => MountState::Unmounted,
        }
    }
}

/// The units of work of one ClientMount.
#[derive(Debug, Clone, PartialEq)]
pub struct MountUnits {
    /// The state to which the units bring the object.
    pub goal: Goal,
    /// One entry for each entry of `spec.mounts`, in the same order.
    pub mounts: Vec<Result<Mount, MountError>>,
    /// Bind mounts beneath the index root, each with its source's index in `mounts`.
    pub binds: Vec<(usize, Mount)>,
    pub trees: Vec<IndexTree>,
    /// Errors of the profile's unreadable lines, which the agent replaces or leaves out when it unmounts.
    pub unreadable: Vec<MountError>,
    /// The reason why the agent unmounts without a profile.
    pub profile_lost: Option<ObjectError>,
}

impl MountUnits {
    /// Returns whether the agent refuses the whole object: its goal is `Mounted`, and one of its mounts is invalid.
    pub fn are_refused(&self) -> bool {
        self.goal == Goal::Mounted && self.mounts.iter().any(Result::is_err)
    }

    /// Returns whether the mount with this index in `spec.mounts` must be unmounted from an unknown path. Returns
    /// `false` while the API forbids the agent to read the profile, because the profile may define the path.
    pub fn has_unknown_path(&self, index: usize) -> bool {
        let mount = self.mounts.get(index);
        self.goal == Goal::Unmounted
            && !matches!(self.profile_lost, Some(ObjectError::ProfileForbidden(_)))
            && matches!(mount, Some(Err(error)) if matches!(error.problem, MountProblem::UnknownPath(_)))
    }

    /// Returns every mount point that belongs to the object, including those of its bind mounts.
    pub fn mount_points(&self) -> impl Iterator<Item = &MountPoint> {
        let own = self.mounts.iter().flatten().map(|mount| &mount.target);
        own.chain(self.binds.iter().map(|(_, bind)| &bind.target))
    }

    /// Returns the unit of work for one mount: the mount, and the goal to reach.
    pub fn unit(&self, mount: &Mount) -> Desired {
        match self.goal {
            Goal::Mounted => Desired::Mounted(mount.clone()),
            Goal::Unmounted => Desired::Unmounted(mount.clone()),
        }
    }
}
