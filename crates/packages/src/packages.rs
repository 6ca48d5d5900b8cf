//! Executes the plan: marks job packages as used, fetches them in the background, and removes them.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

use causes::chain;
use containers::JobPackage;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
};
use uuid::Uuid;

use crate::{
    error::FetchError,
    fetch::fetch,
    plan::{Observed, Presence, Progress, Step, plan, report},
    store::{Key, Store, StoreError},
};

/// The job packages of one node.
#[derive(Debug, Clone)]
pub struct JobPackages(Arc<Owner>);

/// Stops all fetches when this value is dropped.
#[derive(Debug)]
struct Owner(Arc<Shared>);

/// The state that all fetches of a node share.
#[derive(Debug)]
struct Shared {
    store: Store,
    fetches: Mutex<BTreeMap<Key, Fetch>>,
    changed: Arc<Notify>,
}

/// A fetch that runs or has failed.
#[derive(Debug)]
struct Fetch {
    package: JobPackage,
    /// Uids of the objects that wait for the job package.
    wait: BTreeSet<Uuid>,
    stop: watch::Sender<bool>,
    state: FetchState,
}

#[derive(Debug)]
enum FetchState {
    Runs { trouble: Option<String> },
    Failed(String),
}

impl JobPackages {
    /// Opens the job packages in this directory. Notifies `changed` whenever a fetch ends or an attempt fails.
    #[must_use]
    pub fn new(directory: &Path, changed: Arc<Notify>) -> Self {
        let (store, fetches) = (Store::new(directory), Mutex::default());
        Self(Arc::new(Owner(Arc::new(Shared { store, fetches, changed }))))
    }

    /// Starts the fetches that an object still needs for these job packages, and returns the progress of these job
    /// packages. Does not wait for any fetch.
    ///
    /// # Errors
    /// When the directory cannot be used.
    ///
    /// # Panics
    /// Outside a tokio runtime, in which the fetches run.
    pub fn bring(&self, uid: Uuid, packages: &[JobPackage]) -> Result<Progress, StoreError> {
        let shared = &self.0.0;
        let observed = shared.observe(uid, packages);
        let steps = plan(packages, &observed);
        for step in &steps {
            match step {
                Step::Use(package) => shared.store.mark_used(&Key::new(package), uid)?,
                Step::Fetch(package) | Step::Join(package) => shared.join(uid, package),
            }
        }
        let observed = if steps.is_empty() { observed } else { shared.observe(uid, packages) };
        Ok(report(packages, &observed))
    }

    /// Returns the job packages that [`JobPackages::bring`] would begin to fetch, and their progress. Changes nothing.
    #[must_use]
    pub fn foresee(&self, uid: Uuid, packages: &[JobPackage]) -> (Vec<JobPackage>, Progress) {
        let observed = self.0.0.observe(uid, packages);
        let fetched = plan(packages, &observed).into_iter().filter_map(|step| match step {
            Step::Fetch(package) => Some(package),
            Step::Use(_) | Step::Join(_) => None,
        });
        (fetched.collect(), report(packages, &observed))
    }

    /// Returns the path of a job package once it is in place.
    #[must_use]
    pub fn content(&self, package: &JobPackage) -> PathBuf {
        self.0.0.store.content(package)
    }

    /// Ends an object's wait for job packages that are not in place. If no other object waits for a
    /// fetch, stops the fetch.
    pub fn leave(&self, uid: Uuid) {
        self.0.0.fetches.lock().retain(|_, fetch| {
            fetch.wait.remove(&uid);
            if !fetch.wait.is_empty() {
                return true;
            }
            fetch.stop.send_replace(true);
            // A fetch that runs removes itself from the list when it ends.
            matches!(fetch.state, FetchState::Runs { .. })
        });
    }

    /// Ends an object's use of its job packages, and removes the job packages that no other object uses.
    ///
    /// # Errors
    /// When a file could not be removed.
    pub fn release(&self, uid: Uuid) -> Result<(), StoreError> {
        self.leave(uid);
        let shared = &self.0.0;
        shared.store.release(uid, |key| shared.fetches.lock().contains_key(key))
    }
}

impl Shared {
    fn observe(&self, uid: Uuid, packages: &[JobPackage]) -> Observed {
        let is_used = |package: &&JobPackage| self.store.is_used_by(&Key::new(package), uid);
        let used = packages.iter().filter(is_used).cloned().collect();
        let presence =
            packages.iter().map(|package| (package.clone(), self.presence(uid, package)));
        Observed { used, presence: presence.collect() }
    }

    fn presence(&self, uid: Uuid, package: &JobPackage) -> Presence {
        if self.store.is_ready(package) {
            return Presence::InPlace;
        }
        match self.fetches.lock().get(&Key::new(package)) {
            None => Presence::Absent,
            Some(fetch) => match &fetch.state {
                FetchState::Runs { .. } if *fetch.stop.borrow() => Presence::Ending,
                FetchState::Runs { trouble } => Presence::Fetched { trouble: trouble.clone() },
                // The fetch failed for another object, or from another source; it may succeed for this object.
                FetchState::Failed(why)
                    if fetch.wait.contains(&uid) && fetch.package == *package =>
                {
                    Presence::Impossible(why.clone())
                }
                FetchState::Failed(_) => Presence::Absent,
            },
        }
    }

    /// Adds an object to the objects that wait for a job package. Starts the fetch unless the fetch is running already.
    fn join(self: &Arc<Self>, uid: Uuid, package: &JobPackage) {
        let mut fetches = self.fetches.lock();
        let key = Key::new(package);
        if let Some(fetch) = fetches.get_mut(&key)
            && matches!(fetch.state, FetchState::Runs { .. })
        {
            if !*fetch.stop.borrow() {
                fetch.wait.insert(uid);
            }
            return;
        }
        let (stop, stopped) = watch::channel(false);
        let state = FetchState::Runs { trouble: None };
        let (package, wait) = (package.clone(), [uid].into());
        fetches.insert(key, Fetch { package: package.clone(), wait, stop, state });
        drop(fetches);
        let own = Arc::clone(self);
        let handle = Handle::current();
        // A fetch runs on a thread that may block: a file system may hang, and unpacking takes long.
        handle.clone().spawn_blocking(move || own.run(&handle, &package, &stopped));
    }

    /// Runs one fetch to its end.
    fn run(&self, handle: &Handle, package: &JobPackage, stop: &watch::Receiver<bool>) {
        let key = Key::new(package);
        let report = |error: &FetchError| self.record_failure(&key, package, error);
        let mut stop_changes = stop.clone();
        let work = async {
            tokio::select! {
                // This branch also ends the fetch if the sender is gone, because nothing could stop the fetch any more.
                _ = stop_changes.wait_for(|stop| *stop) => None,
                done = fetch(&self.store, package, stop, report) => Some(done),
            }
        };
        // A panic affects only this job package. Each lock on the shared state is held for a single change, so the
        // panic leaves no change half done.
        let done = catch_unwind(AssertUnwindSafe(|| handle.block_on(work)));
        let done = done.unwrap_or_else(|_| {
            let defect =
                "a defect of this agent (report it with the log): a panic during the fetch"
                    .to_owned();
            Some(Err(FetchError::Panicked(defect)))
        });
        if !matches!(done, Some(Ok(())))
            && let Err(error) = self.store.discard(&key)
        {
            log::warn!(
                "remove the incomplete files of job package {}: {}",
                package.name,
                chain(&error)
            );
        }
        self.record_end(&key, package, done, *stop.borrow());
        // During the fetch, the last object that used the job package may have released it.
        if let Err(error) = self.store.remove_unused(&key) {
            log::warn!("remove job package {}: {}", package.name, chain(&error));
        }
    }

    fn record_failure(&self, key: &Key, package: &JobPackage, error: &FetchError) {
        let why = chain(error);
        let JobPackage { name, source, .. } = package;
        log::warn!(
            "job package {name} from {source}: {why}; the rabbit-agent retries within 1 min"
        );
        if let Some(fetch) = self.fetches.lock().get_mut(key) {
            fetch.state = FetchState::Runs { trouble: Some(why) };
        }
        self.changed.notify_one();
    }

    fn record_end(
        &self,
        key: &Key,
        package: &JobPackage,
        done: Option<Result<(), FetchError>>,
        is_stopped: bool,
    ) {
        let JobPackage { name, source, .. } = package;
        let mut fetches = self.fetches.lock();
        match done {
            Some(Err(error)) if !is_stopped => {
                let why = chain(&error);
                log::warn!("job package {name} from {source}: {why}");
                if let Some(fetch) = fetches.get_mut(key) {
                    fetch.state = FetchState::Failed(why);
                }
            }
            done => {
                if matches!(done, Some(Ok(()))) {
                    log::info!("job package {name} from {source} is in place");
                }
                fetches.remove(key);
            }
        }
        drop(fetches);
        self.changed.notify_one();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        for fetch in self.0.fetches.lock().values() {
            fetch.stop.send_replace(true);
        }
    }
}
