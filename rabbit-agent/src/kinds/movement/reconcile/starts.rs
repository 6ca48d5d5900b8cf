//! Starts processes of `datamover`, after a check of turn, mounts and profile.

use std::sync::Arc;

use api::{NnfDataMovementProfile, nnf_data_movement_profile::NnfDataMovementProfileData};
use daemon::chain;
use kube::Api;
use movement::order::Task;

use super::Run;
use crate::kinds::movement::{
    Movers,
    desired::limit,
    movers::{Owner, StartError},
    order::{check_mounts, order},
};

/// Why a process was not started.
#[derive(Debug)]
pub(super) enum NotStarted {
    /// It is the turn of other movements.
    Turn(String),
    /// A process of an earlier agent has not ended.
    Locked(String),
    Failed(String),
}

impl From<StartError> for NotStarted {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Locked => Self::Locked(chain(&error)),
            _ => Self::Failed(chain(&error)),
        }
    }
}

impl Run<'_> {
    /// Runs blocking work on a separate thread.
    pub(super) async fn blocking<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Arc<Movers>, &Owner) -> T + Send + 'static,
    ) -> T {
        let (movers, owner) = (Arc::clone(self.movers), self.owner.clone());
        daemon::blocking(move || work(&movers, &owner)).await
    }

    /// Starts a copy.
    pub(super) async fn start(&mut self) -> Result<(), NotStarted> {
        let uid = self.owner.uid;
        if !self.movers.has_turn(uid, self.waiting) {
            return Err(self.no_turn());
        }
        let started = async {
            check_mounts(&self.desired).map_err(NotStarted::Failed)?;
            let profile = self.profile().await.map_err(NotStarted::Failed)?;
            Ok(self.process(Task::Copy, &profile).await?)
        };
        match started.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.no_turn()),
            Err(why) => {
                self.movers.block(uid);
                Err(why)
            }
        }
    }

    fn no_turn(&self) -> NotStarted {
        let limit = self.movers.config.at_once;
        NotStarted::Turn(format!(
            "the copy starts when fewer than {limit} data movements run on this rabbit and it is this user's turn"
        ))
    }

    /// Starts a process that removes temporary files.
    pub(super) async fn clean(&mut self) -> Result<(), NotStarted> {
        check_mounts(&self.desired).map_err(NotStarted::Failed)?;
        let profile = NnfDataMovementProfileData::default();
        self.process(Task::Clean, &profile).await?;
        Ok(())
    }

    async fn process(
        &mut self,
        task: Task,
        profile: &NnfDataMovementProfileData,
    ) -> Result<bool, StartError> {
        let record = self.movers.record(self.owner.uid);
        let order = order(task, &self.desired, profile, (&self.movers.config, &record));
        let waiting = self.waiting.to_vec();
        // A pass over the running copy reports an invalid limit.
        let limit = limit(&self.object).ok().flatten();
        self.blocking(move |movers, owner| movers.start(owner, &order, limit, &waiting)).await
    }

    /// Reads the pinned profile; returns the defaults when the object refers to none.
    pub(super) async fn profile(&mut self) -> Result<NnfDataMovementProfileData, String> {
        let reference = &self.object.spec.profile_reference;
        let Some(name) = reference.name.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(NnfDataMovementProfileData::default());
        };
        let namespace = reference.namespace.as_deref().unwrap_or_default();
        let api: Api<NnfDataMovementProfile> =
            Api::namespaced(self.context.client.clone(), namespace);
        match api.get_opt(name).await {
            Ok(Some(profile)) => Ok(profile.data().clone()),
            Ok(None) => Err(format!(
                "NnfDataMovementProfile {namespace}/{name} does not exist: create it, or name another in spec.profileReference"
            )),
            Err(error) => {
                Err(format!("read NnfDataMovementProfile {namespace}/{name}: {}", chain(&error)))
            }
        }
    }
}
