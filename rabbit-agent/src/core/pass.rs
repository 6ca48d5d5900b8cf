//! Defines the input that all passes share, and the result of a pass. A pass works once on one object.

use std::{collections::BTreeSet, fmt, sync::Arc};

use agent::{error::Failure, records::MountRecords, site::Site};
use api::{ClientMount, NnfStorageProfile, ResourceError};
use apiclient::plain;
use controller::{
    Fingerprint, Object, Retry, describe,
    events::Events,
    patch::{self, WriteError},
};
use fence::Fences;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::{Api, Client, ResourceExt, core::object::HasStatus};
use packages::JobPackages;
use storage::{
    ConvergeError, Converged, Converger, Desired, Observed, Panicked,
    desired::{NodeName, Nqn},
};

use crate::{
    core::{Cache, Cached, Key, Wake, cache::NoProfile, watch::Update},
    kinds::{
        block_storage::desired::AllocationPolicy,
        container,
        lustre_mgt::args::Mgs,
        movement::Movers,
        node_storage::{desired::TemporaryRoot, progress::Progress},
    },
};

/// Clients and settings that all passes share.
pub struct Context {
    pub node: NodeName,
    /// Name of the agent's pod; empty outside Kubernetes.
    pub pod: String,
    pub client: Client,
    pub converger: Arc<Converger>,
    /// A converger that attaches no GFS2 to a fenced compute.
    pub gated: Arc<Converger>,
    /// Records on disk of mounted ClientMounts, from which the next agent learns of the mounts.
    pub records: Arc<MountRecords>,
    /// Start time of this agent, which the agent writes into statuses. The agent trusts the device paths in a status
    /// only if the status has this start time: earlier agents may have found other paths.
    pub started: Time,
    pub fences: Fences,
    pub site: Site,
    pub temporary: TemporaryRoot,
    pub policy: AllocationPolicy,
    pub mgs: Mgs,
    /// Runs workflow containers; `None` if this rabbit runs none.
    pub containers: Option<Arc<dyn container::Host>>,
    /// Fetches the job packages of containers; `None` if this agent fetches none.
    pub packages: Option<JobPackages>,
    /// The `datamover` processes of data movements.
    pub movers: Arc<Movers>,
    pub events: Events,
}

impl fmt::Debug for Context {
    /// Leaves out the client, whose Debug output says nothing useful.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("node", &self.node)
            .field("started", &self.started)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// Converges units that need no permission from the fences.
    pub async fn converge(&self, units: Vec<Desired>) -> Vec<Result<Converged, ConvergeError>> {
        converge(&self.converger, units).await
    }

    /// Observes all drives of the rabbit.
    pub async fn inventory(&self) -> Result<Observed, Failure> {
        let inventory = self.converge(vec![Desired::Inventory]).await.pop();
        let inventory = inventory.expect("each unit that is converged has a result");
        inventory
            .map(|converged| converged.observed)
            .map_err(|error| Failure::of_convergence(&error))
    }

    /// Returns whether the API has an object that is missing from the cache. Each kind has its own watch, and the watch
    /// may be behind or broken, so the agent asks the API before it reports that an object is missing.
    pub async fn exists<K: Object>(&self, namespace: &str, name: &str) -> Result<bool, WriteError> {
        let api = Api::<K>::namespaced(self.client.clone(), namespace);
        let found = api.get_metadata_opt(name).await;
        found.map(|object| object.is_some()).map_err(|source| WriteError::Look {
            object: format!("{} {namespace}/{name}", K::kind(&())),
            source: Box::new(source),
        })
    }

    /// Returns whether the API has a profile that the cache lacks.
    pub async fn profile_exists(&self, no_profile: &NoProfile) -> Result<bool, WriteError> {
        match no_profile {
            NoProfile::Unnamed => Ok(false),
            NoProfile::Missing { namespace, name } => {
                self.exists::<NnfStorageProfile>(namespace, name).await
            }
        }
    }

    /// Converts a failure into the error of a status.
    pub fn resource_error(&self, failure: &Failure, context: &str) -> ResourceError {
        failure.to_resource_error(self.node.as_str(), context)
    }
}

/// Converges units in parallel on threads that may block.
pub async fn converge(
    converger: &Arc<Converger>,
    units: Vec<Desired>,
) -> Vec<Result<Converged, ConvergeError>> {
    let converger = Arc::clone(converger);
    daemon::blocking(move || converger.converge_all(&units)).await
}

/// A write of a pass, as the API stored it.
#[derive(Debug)]
pub struct Wrote {
    /// The key of the written object, and the object's fingerprint after the write.
    pub handled: Option<(Key, Fingerprint)>,
    pub version: Option<String>,
    update: Update,
}

impl Wrote {
    fn new<K: Cached>(object: K) -> Self {
        let handled = object.key().map(|key| (key, Fingerprint::new(&object)));
        let version = object.resource_version();
        Self { handled, version, update: Update::new(move |cache| cache.wrote(object)) }
    }

    /// Puts the written object into the cache, and returns the wakes that follow.
    pub fn apply(self, cache: &mut Cache) -> Vec<Wake> {
        self.update.apply(cache)
    }
}

/// The result of a pass.
#[derive(Debug, Default)]
pub struct Pass {
    pub wrote: Vec<Wrote>,
    /// When to retry: the earliest time that any failure of the pass asks for.
    pub retry: Retry,
    /// The time of the next pass even if nothing failed or changed.
    pub again: Option<Timestamp>,
    pub holders: Vec<i32>,
    pub failures: Vec<String>,
    /// A write that failed because the object had changed or was gone. The conflict is logged only if it lasts: usually
    /// the watch soon brings the newer object.
    pub conflict: Option<String>,
    /// Progress of long-running work, if the pass checked it.
    pub progress: Option<Vec<Progress>>,
    pub wakes: Vec<Key>,
    /// Earlier versions of the ClientMount that are completely unmounted.
    pub unmounted_versions: Vec<ClientMount>,
    /// Whether a ClientMount may have left mounts whose mount points are unknown.
    pub may_leave_mounts: bool,
    /// NQNs of the usable drives, if the pass made an inventory of all drives.
    pub drives: Option<BTreeSet<Nqn>>,
    /// Uid of the ClientMount, if all its mounts are made.
    pub mounted: Option<String>,
    /// Uid of the ClientMount, if it is completely unmounted.
    pub unmounted: Option<String>,
}

impl Pass {
    /// Adds a failure, with all its causes.
    pub fn add_failure<K: Object>(&mut self, object: &K, failure: &Failure) {
        let object = describe(object);
        self.failures.push(format!("{object}: {}: {}", failure.severity, failure.debug));
        self.retry = self.retry.min(failure.retry);
        self.holders.extend(failure.holders.iter());
    }

    /// Returns the result of a pass that panicked: the agent retries the object later, and the panic does
    /// not affect other objects.
    pub fn panicked(key: &Key, panicked: &Panicked) -> Self {
        let failures = vec![format!("{key}: {panicked}")];
        Self { failures, retry: Retry::Later, ..Self::default() }
    }

    /// Adds the result of the pass's writes. The agent retries a failed write even if the API says that the object is
    /// gone: for the agent, an object is gone only once the watch says so.
    #[must_use]
    pub fn with_result(mut self, writes: Result<(), WriteError>) -> Self {
        let Err(error) = writes else { return self };
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

    /// Retries soon, because the API has an object that the watch has not brought yet.
    pub fn wait_for_watch(&mut self) {
        self.retry = Retry::Soon;
    }

    pub fn add_write<K: Cached>(&mut self, object: K) {
        self.wrote.push(Wrote::new(object));
    }

    /// Records the write, if there was one, and returns the object as the API stores it now.
    pub fn stored<K: Cached>(&mut self, object: &K, written: Option<K>) -> K {
        let Some(stored) = written else { return object.clone() };
        self.add_write(stored.clone());
        stored
    }

    /// Adds the agent's finalizer before the pass makes anything for the object, and returns the
    /// object with the finalizer.
    pub async fn with_finalizer<K: Cached>(
        &mut self,
        context: &Context,
        object: &K,
        finalizer: &str,
    ) -> Result<K, WriteError> {
        let written = patch::add_finalizer(&context.client, object, finalizer).await?;
        Ok(self.stored(object, written))
    }

    /// Removes a finalizer from an object.
    pub async fn without_finalizer<K: Cached>(
        &mut self,
        context: &Context,
        object: &K,
        finalizer: &str,
    ) -> Result<(), WriteError> {
        let stored = patch::remove_finalizer(&context.client, object, finalizer).await?;
        self.wrote.extend(stored.map(Wrote::new));
        Ok(())
    }

    /// Records the failure, and writes the status that `with_error` returns for it.
    pub async fn refuse<K: Cached + HasStatus>(
        &mut self,
        context: &Context,
        object: &K,
        failure: &Failure,
        with_error: fn(&K, ResourceError) -> K::Status,
    ) -> Result<(), WriteError> {
        self.add_failure(object, failure);
        self.report(context, object, with_error(object, context.resource_error(failure, ""))).await
    }

    /// Writes this status, unless the object has it already.
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

    /// Writes the status of `after`, if it differs from that of `before`.
    pub async fn status<K: Cached>(
        &mut self,
        context: &Context,
        before: &K,
        after: &K,
    ) -> Result<(), WriteError> {
        let stored = patch::status(&context.client, before, after).await?;
        self.wrote.extend(stored.map(Wrote::new));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
