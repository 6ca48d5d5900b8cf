//! One pass over one object: what it may use, and what it leaves behind.

use std::{collections::BTreeSet, fmt, panic::resume_unwind, sync::Arc};

use api::{ClientMount, NnfStorageProfile, ResourceError};
use apiclient::plain;
use clientmount_agent::{error::Failure, records::MountRecords, site::Site};
use controller::{
    Fingerprint, Object, Retry, describe,
    events::Events,
    patch::{self, WriteError},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Client, ResourceExt, core::object::HasStatus};
use storage::{
    ConvergeError, Converged, Converger, Desired, Panicked,
    desired::{NodeName, Nqn},
};

use crate::{
    block_storage::desired::AllocationPolicy,
    cache::{Cache, CacheUpdate, Cached, Key, NoProfile, Wake},
    fence::Fences,
    lustre_mgt::args::Mgs,
    node_storage::{desired::TemporaryRoot, progress::Progress},
};

/// What every pass may use.
pub struct Context {
    /// This rabbit.
    pub node: NodeName,
    /// The pod the agent runs in, or nothing.
    pub pod: String,
    /// The API.
    pub client: Client,
    /// The node's storage.
    pub converger: Arc<Converger>,
    /// The same, where no compute that is fenced is given anything.
    pub gated: Arc<Converger>,
    /// What ClientMounts have mounted, for the next agent.
    pub records: Arc<MountRecords>,
    /// Tells device paths that this agent looked up from those of any earlier one, which are not trusted.
    pub started: Time,
    /// Who is fenced.
    pub fences: Fences,
    /// Where ClientMounts may mount.
    pub site: Site,
    /// Where set-up hooks see a file system.
    pub temporary: TemporaryRoot,
    /// How capacity is allocated.
    pub policy: AllocationPolicy,
    /// How a Lustre management target is spoken to.
    pub mgs: Mgs,
    /// Where news goes.
    pub events: Events,
}

impl fmt::Debug for Context {
    /// Without the client, which cannot be shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("node", &self.node)
            .field("started", &self.started)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// Converges units side by side on threads that may block.
    pub async fn converge(&self, units: Vec<Desired>) -> Vec<Result<Converged, ConvergeError>> {
        let converger = Arc::clone(&self.converger);
        self.blocking(move || converger.converge_all(&units)).await
    }

    /// The same for what a compute is given only while nobody fences it.
    pub async fn converge_gated(
        &self,
        units: Vec<Desired>,
    ) -> Vec<Result<Converged, ConvergeError>> {
        let converger = Arc::clone(&self.gated);
        self.blocking(move || converger.converge_all(&units)).await
    }

    /// Whether an object exists that no watch has brought: watches are apart, and one of them may be behind or broken, so
    /// nobody is told that something is missing before the API was asked.
    ///
    /// # Errors
    /// When the API does not say.
    pub async fn exists<K: Object>(&self, namespace: &str, name: &str) -> Result<bool, WriteError> {
        let api = Api::<K>::namespaced(self.client.clone(), namespace);
        let found = api.get_metadata_opt(name).await;
        found.map(|object| object.is_some()).map_err(|source| WriteError::Look {
            object: format!("{} {namespace}/{name}", K::kind(&())),
            source: Box::new(source),
        })
    }

    /// Whether a profile exists all the same.
    ///
    /// # Errors
    /// When the API does not say.
    pub async fn profile_exists(&self, no_profile: &NoProfile) -> Result<bool, WriteError> {
        match no_profile {
            NoProfile::Unnamed => Ok(false),
            NoProfile::Missing { namespace, name } => {
                self.exists::<NnfStorageProfile>(namespace, name).await
            }
        }
    }

    /// Runs something that may block in the kernel.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        blocking(work).await
    }

    /// An error as objects carry it.
    #[must_use]
    pub fn resource_error(&self, failure: &Failure, context: &str) -> ResourceError {
        failure.to_resource_error(self.node.as_str(), context)
    }
}

/// Runs something that may block in the kernel; a panic goes on in who awaits it.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

/// What a pass wrote, as the API stored it.
pub struct Wrote {
    /// Which object it was, and what it then looked like to its passes.
    pub handled: Option<(Key, Fingerprint)>,
    /// Its resourceVersion since.
    pub version: Option<String>,
    apply: CacheUpdate,
}

impl Wrote {
    fn of<K: Cached>(object: K) -> Self {
        let handled = object.key().map(|key| (key, Fingerprint::of(&object)));
        let version = object.resource_version();
        Self { handled, version, apply: Box::new(move |cache| cache.wrote(object)) }
    }

    /// Tells the cache.
    pub fn apply(self, cache: &mut Cache) -> Vec<Wake> {
        (self.apply)(cache)
    }
}

impl fmt::Debug for Wrote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wrote").field("handled", &self.handled).finish_non_exhaustive()
    }
}

/// What a pass leaves behind.
#[derive(Debug)]
pub struct Pass {
    /// What it wrote, in order.
    pub wrote: Vec<Wrote>,
    /// When to try again by itself: the soonest of what failed.
    pub retry: Retry,
    /// Whether the object is as it should be.
    pub done: bool,
    /// Processes that keep something in use: when they have ended the agent tries again at once.
    pub holders: Vec<i32>,
    /// What failed, for the log.
    pub failures: Vec<String>,
    /// A write that found another object than was read, or none: no news, for the watch brings why, unless it does not.
    pub conflict: Option<String>,
    /// What goes on by itself, of a pass that looked.
    pub progress: Option<Vec<Progress>>,
    /// Who must look again.
    pub wakes: Vec<Key>,
    /// Of what a ClientMount asked for earlier, that of which nothing is left.
    pub gone: Vec<ClientMount>,
    /// Whether a ClientMount went that did not name all it may have had.
    pub may_leave_mounts: bool,
    /// The drives that can be used, of a pass that looked at all of them.
    pub drives: Option<BTreeSet<Nqn>>,
    /// Uid of a ClientMount of which everything is mounted.
    pub mounted: Option<String>,
    /// Uid of a ClientMount of which nothing is mounted any more.
    pub unmounted: Option<String>,
}

impl Default for Pass {
    fn default() -> Self {
        Self {
            wrote: Vec::new(),
            retry: Retry::OnChange,
            done: true,
            holders: Vec::new(),
            failures: Vec::new(),
            conflict: None,
            progress: None,
            wakes: Vec::new(),
            gone: Vec::new(),
            may_leave_mounts: false,
            drives: None,
            mounted: None,
            unmounted: None,
        }
    }
}

impl Pass {
    /// Notes a failure, with all its causes.
    pub fn failed<K: Object>(&mut self, object: &K, failure: &Failure) {
        let object = describe(object);
        self.failures.push(format!("{object}: {}: {}", failure.severity, failure.debug));
        self.retry = self.retry.min(failure.retry);
        self.holders.extend(failure.holders.iter());
        self.done = false;
    }

    /// One that ended early by a defect of the agent: its object waits, and others go on.
    #[must_use]
    pub fn panicked(key: &Key, panicked: &Panicked) -> Self {
        let failures = vec![format!("{key}: {panicked}")];
        Self { failures, retry: Retry::Later, done: false, ..Self::default() }
    }

    /// Notes how the pass's writes went. The agent tries whatever was not written again: only a watch says that an object is gone.
    #[must_use]
    pub fn ended(mut self, writes: Result<(), WriteError>) -> Self {
        let Err(error) = writes else { return self };
        self.done = false;
        self.retry = Retry::Soon;
        match &error {
            WriteError::Unknown { .. } => self.conflict = Some(error.to_string()),
            WriteError::Conflict { source, .. } => {
                self.conflict = Some(format!("{error}: {}", plain(source)));
            }
            WriteError::Api { source, .. } | WriteError::Look { source, .. } => {
                self.failures.push(format!("{error}: {}", plain(source)));
            }
        }
        self
    }

    /// Something that exists has not been seen yet: it is on its way, and wakes the object.
    pub fn wait(&mut self) {
        self.done = false;
        self.retry = Retry::Soon;
    }

    /// Notes a write.
    pub fn wrote<K: Cached>(&mut self, object: K) {
        self.wrote.push(Wrote::of(object));
    }

    /// Puts the agent's finalizer on, before anything of the object is made, and returns the object as it then is.
    ///
    /// # Errors
    /// When it cannot be put on.
    pub async fn with_finalizer<K: Cached>(
        &mut self,
        context: &Context,
        object: &K,
        finalizer: &str,
    ) -> Result<K, WriteError> {
        let Some(stored) = patch::add_finalizer(&context.client, object, finalizer).await? else {
            return Ok(object.clone());
        };
        self.wrote.push(Wrote::of(stored.clone()));
        Ok(stored)
    }

    /// Takes a finalizer off.
    ///
    /// # Errors
    /// When it cannot be taken off.
    pub async fn without_finalizer<K: Cached>(
        &mut self,
        context: &Context,
        object: &K,
        finalizer: &str,
    ) -> Result<(), WriteError> {
        let stored = patch::remove_finalizer(&context.client, object, finalizer).await?;
        self.wrote.extend(stored.map(Wrote::of));
        Ok(())
    }

    /// Notes why nothing is done, and tells it in the status that `refused` makes.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn refuse<K: Cached + HasStatus>(
        &mut self,
        context: &Context,
        object: &K,
        failure: &Failure,
        refused: fn(&K, ResourceError) -> K::Status,
    ) -> Result<(), WriteError> {
        self.failed(object, failure);
        self.report(context, object, refused(object, context.resource_error(failure, ""))).await
    }

    /// Gives an object this status, if it is a new one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn report<K: Cached + HasStatus>(
        &mut self,
        context: &Context,
        object: &K,
        status: K::Status,
    ) -> Result<(), WriteError> {
        let mut after = object.clone();
        *after.status_mut() = Some(status);
        self.status(context, object, &after).await
    }

    /// Writes a status, if it is a new one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn status<K: Cached>(
        &mut self,
        context: &Context,
        before: &K,
        after: &K,
    ) -> Result<(), WriteError> {
        let stored = patch::status(&context.client, before, after).await?;
        self.wrote.extend(stored.map(Wrote::of));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_with_the_object_that_it_concerns() {
        let pass = Pass::panicked(&Key::BlockStorage("job-7-0".into()), &Panicked::of(&"a bug"));
        let reported = &pass.failures[0];
        assert!(
            reported.starts_with("NnfNodeBlockStorage job-7-0: ") && reported.ends_with("a bug")
        );
    }
}
