//! Carries out the planned actions, and writes each result into the status before the next.

use agent::error::Failure;
use api::{
    NnfLustreMgt, NnfLustreMgtStatus,
    fs_name::{FsName, can_be_erased},
    names::finalizer,
    nnf_lustre_mgt::{NnfLustreMgtSpecCommand, NnfLustreMgtStatusClaim},
};
use controller::{
    describe, has_finalizer,
    patch::{self, WriteError},
};
use daemon::chain;
use kube::{Api, ResourceExt, api::ListParams};
use storage::template::SiteCommand;

use super::{
    MgtError, config_map, mgs,
    plan::{
        Action, Published, Work, goes_with_target, plan, with_commands_run, with_error,
        without_claim,
    },
};
use crate::core::{Context, Pass, failure::combined};

/// Maximum number of attempts to write the status after an action, when other writers change the object.
const TRIES: usize = 5;

/// Brings one management target to its object's desired state. A deleted object loses the agent's finalizer once the
/// agent has tried to erase every withdrawn name. Names of claims that are not withdrawn then stay on the target: the
/// user who deleted the object is responsible for them.
pub async fn reconcile(
    context: &Context,
    object: &NnfLustreMgt,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let deleted = object.metadata.deletion_timestamp.is_some();
    if deleted && !has_finalizer(object, finalizer::NNF_LUSTRE_MGT) {
        return Ok(());
    }
    let object = if deleted {
        object.clone()
    } else {
        pass.with_finalizer(context, object, finalizer::NNF_LUSTRE_MGT).await?
    };
    let mut run = Run { context, pass, object, failures: Vec::new() };
    run.run_all().await?;
    run.end(deleted).await
}

/// One pass over one object.
struct Run<'a> {
    context: &'a Context,
    pass: &'a mut Pass,
    object: NnfLustreMgt,
    failures: Vec<(Work, Failure)>,
}

impl Run<'_> {
    /// Carries out one action after another. The loop ends: an action whose result the API does not keep fails, and the
    /// pass skips a part of the work that failed.
    async fn run_all(&mut self) -> Result<(), WriteError> {
        loop {
            let mut failed: Vec<Work> =
                self.failures.iter().map(|(work, _)| work.clone()).collect();
            let published = match self.read_published(&failed).await {
                Ok(published) => published,
                Err(error) => {
                    self.add_failure(Work::Names, &error);
                    failed.push(Work::Names);
                    None
                }
            };
            let Some((work, action)) = plan(&self.object, published.as_ref(), &failed) else {
                return Ok(());
            };
            let done = match action {
                Ok(action) => self.act(action, published.as_ref()).await?,
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                self.add_failure(work, &error);
            }
        }
    }

    async fn read_published(&mut self, failed: &[Work]) -> Result<Option<Published>, MgtError> {
        let is_needed =
            !failed.contains(&Work::Names) && self.object.metadata.deletion_timestamp.is_none();
        if is_needed {
            config_map::read(&self.context.client, &self.object).await
        } else {
            Ok(None)
        }
    }

    fn add_failure(&mut self, work: Work, error: &MgtError) {
        self.failures.push((work, Failure::from(error)));
    }

    async fn act(
        &mut self,
        action: Action,
        published: Option<&Published>,
    ) -> Result<Result<(), MgtError>, WriteError> {
        match action {
            Action::WriteStatus(status) => self.write_status(*status).await,
            Action::Publish(next) => Ok(self.publish(published, next).await),
            Action::Erase(claim) => self.erase(claim).await,
            Action::Run(entry) => self.run(entry).await,
        }
    }

    async fn publish(
        &mut self,
        published: Option<&Published>,
        next: FsName,
    ) -> Result<(), MgtError> {
        let published = published.expect("a name is published to the ConfigMap that was read");
        config_map::publish(&self.context.client, published, &next.to_string()).await
    }

    async fn erase(
        &mut self,
        claim: NnfLustreMgtStatusClaim,
    ) -> Result<Result<(), MgtError>, WriteError> {
        log::info!("{}: erases fsname {} from MGT", describe(&self.object), claim.fs_name);
        if let Err(error) = erase(self.context, claim.fs_name.clone()).await {
            if !goes_with_target(&self.object, &claim) {
                return Ok(Err(error));
            }
            let (object, why) = (describe(&self.object), chain(&error));
            log::warn!(
                "{object}: fsname {:?} was not erased; its entry is removed with its MGT: {why}",
                claim.fs_name
            );
        }
        self.record(|object| without_claim(object, &claim)).await
    }

    async fn run(
        &mut self,
        entry: NnfLustreMgtSpecCommand,
    ) -> Result<Result<(), MgtError>, WriteError> {
        let place = self.object.spec.command_list.iter().position(|command| *command == entry);
        let place = place.expect("the entry is one of the object's");
        let (deadline, lines) = (self.context.mgs.deadline, entry.commands.clone());
        let object = describe(&self.object);
        log::info!("{object}: runs commands of spec.commandList[{place}] on MGT");
        let ran = daemon::blocking(move || {
            let lines: Vec<_> = lines
                .iter()
                .enumerate()
                .map(|(index, line)| (format!("spec.commandList[{place}].commands[{index}]"), line))
                .map(|(field, line)| Ok((SiteCommand::new(&field, line, [].into())?, field)))
                .collect::<Result<_, MgtError>>()?;
            for (line, field) in lines {
                let ended = line.map_or(Ok(()), |line| mgs::run(line.line(), deadline));
                ended.map_err(|source| MgtError::Command { field, source })?;
            }
            Ok(())
        });
        let ran = ran.await;
        let error =
            ran.as_ref().err().map(|error| self.context.resource_error(&Failure::from(error), ""));
        let reported =
            self.record(|object| with_commands_run(object, &entry, error.as_ref())).await?;
        Ok(ran.and(reported))
    }

    /// Writes the result of an action on the target into the status. Retries if another writer
    /// changed the object meanwhile.
    async fn record(
        &mut self,
        change: impl Fn(&NnfLustreMgt) -> NnfLustreMgtStatus,
    ) -> Result<Result<(), MgtError>, WriteError> {
        for _ in 1..TRIES {
            match self.write_status(change(&self.object)).await {
                Err(WriteError::Conflict { .. }) => self.object = self.reload().await?,
                reported => return reported,
            }
        }
        self.write_status(change(&self.object)).await
    }

    async fn reload(&mut self) -> Result<NnfLustreMgt, WriteError> {
        let (object, name) = (describe(&self.object), self.object.name_any());
        let api = Api::namespaced(self.context.client.clone(), self.context.node.as_str());
        let with_name = ListParams::default().fields(&format!("metadata.name={name}"));
        let found = api.list(&with_name).await.map_err(|source| WriteError::Look {
            object: object.clone(),
            source: Box::new(source),
        })?;
        let same =
            found.items.into_iter().find(|mgt: &NnfLustreMgt| mgt.uid() == self.object.uid());
        same.ok_or(WriteError::Unknown { object })
    }

    async fn write_status(
        &mut self,
        status: NnfLustreMgtStatus,
    ) -> Result<Result<(), MgtError>, WriteError> {
        let mut after = self.object.clone();
        after.status = Some(status);
        let Some(stored) = patch::status(&self.context.client, &self.object, &after).await? else {
            return Ok(Ok(()));
        };
        self.pass.add_write(stored.clone());
        self.object = stored;
        let kept = self.object.status == after.status;
        Ok(if kept { Ok(()) } else { Err(MgtError::NotKept) })
    }

    /// Reports failures. If there are none and the object is deleted, removes the agent's finalizer.
    async fn end(mut self, deleted: bool) -> Result<(), WriteError> {
        let failures: Vec<_> = self
            .failures
            .iter()
            .map(|(work, failure)| (work.to_string(), failure.clone()))
            .collect();
        let failure = combined(&failures);
        if let Some(failure) = &failure {
            self.pass.add_failure(&self.object, failure);
        } else if deleted {
            let held = finalizer::NNF_LUSTRE_MGT;
            return self.pass.without_finalizer(self.context, &self.object, held).await;
        }
        let error = failure.map(|failure| self.context.resource_error(&failure, ""));
        let status = with_error(&self.object, error);
        self.write_status(status).await.map(drop)
    }
}

/// Erases a name. Appends the name to the command only if it is valid.
async fn erase(context: &Context, fs_name: String) -> Result<(), MgtError> {
    if !can_be_erased(&fs_name) {
        return Err(MgtError::NotErasable(fs_name));
    }
    let (mgs, name) = (context.mgs.clone(), fs_name.clone());
    let erased = daemon::blocking(move || mgs::erase(&mgs.erase, &name, mgs.deadline)).await;
    erased.map_err(|source| MgtError::Erase { fs_name, source })
}
