//! A ClientMount as units of work.

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
    /// None of them is mounted.
    Unmounted,
}

impl Goal {
    /// Returns the goal of an object. An object that is being deleted is to
    /// be unmounted, whatever `spec.desiredState` says.
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

/// One ClientMount as units of work.
#[derive(Debug, Clone, PartialEq)]
pub struct MountUnits {
    /// The state to which the units bring the object.
    pub goal: Goal,
    /// One entry per entry of `spec.mounts`, in its order.
    pub mounts: Vec<Result<Mount, MountError>>,
    /// Bind mounts beneath the index root, each with the index in `mounts` of its source.
    pub binds: Vec<(usize, Mount)>,
    pub trees: Vec<IndexTree>,
    /// Why lines of the profile cannot be read, which the agent leaves out when it unmounts.
    pub unreadable: Vec<MountError>,
    /// Why the agent unmounts without a profile.
    pub profile_lost: Option<ObjectError>,
}

impl MountUnits {
    /// Returns whether the object as a whole is refused: it asks for mounts and one of them is invalid.
    pub fn are_refused(&self) -> bool {
        self.goal == Goal::Mounted && self.mounts.iter().any(Result::is_err)
    }

    /// Returns whether the mount with this index in `spec.mounts` is to be unmounted from a path that is not known.
    /// `false` while the agent may not read the profile, which may name the path.
    pub fn has_unknown_path(&self, index: usize) -> bool {
        let mount = self.mounts.get(index);
        self.goal == Goal::Unmounted
            && !matches!(self.profile_lost, Some(ObjectError::ProfileForbidden(_)))
            && matches!(mount, Some(Err(error)) if matches!(error.problem, MountProblem::UnknownPath(_)))
    }

    /// Returns every mount point that belongs to the object, its binds included.
    pub fn mount_points(&self) -> impl Iterator<Item = &MountPoint> {
        let own = self.mounts.iter().flatten().map(|mount| &mount.target);
        own.chain(self.binds.iter().map(|(_, bind)| &bind.target))
    }

    /// Returns the unit of work that brings a mount to the goal.
    pub fn unit(&self, mount: &Mount) -> Desired {
        match self.goal {
            Goal::Mounted => Desired::Mounted(mount.clone()),
            Goal::Unmounted => Desired::Unmounted(mount.clone()),
        }
    }
}
