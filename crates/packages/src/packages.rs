//! Runs the plan: marks packages as used, fetches them in the background, and removes them.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

use causes::chain;
use containers::Package;
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

/// The packages of one node.
#[derive(Debug, Clone)]
pub struct Packages(Arc<Owner>);

/// Nothing is fetched any more once it is dropped.
#[derive(Debug)]
struct Owner(Arc<Shared>);

/// What those who fetch share.
#[derive(Debug)]
struct Shared {
    store: Store,
    fetches: Mutex<BTreeMap<Key, Fetch>>,
    changed: Arc<Notify>,
}

/// A package that is fetched, or could not be.
#[derive(Debug)]
struct Fetch {
    package: Package,
    /// The objects that wait for it.
    wait: BTreeSet<Uuid>,
    stop: watch::Sender<bool>,
    state: State,
}

#[derive(Debug)]
enum State {
    Runs { trouble: Option<String> },
    Failed(String),
}

impl Packages {
    /// The packages in this directory. `changed` hears whenever one comes, or fails to.
    #[must_use]
    pub fn new(directory: &Path, changed: Arc<Notify>) -> Self {
        let (store, fetches) = (Store::new(directory), Mutex::default());
        Self(Arc::new(Owner(Arc::new(Shared { store, fetches, changed }))))
    }

    /// Sees to it that these packages come, for an object, and tells how far they are. It waits for none of them.
    ///
    /// # Errors
    /// When the directory cannot be used.
    ///
    /// # Panics
    /// When no runtime of tokio is there, in which packages are fetched.
    pub fn bring(&self, uid: Uuid, packages: &[Package]) -> Result<Progress, StoreError> {
        let shared = &self.0.0;
        let observed = shared.observe(uid, packages);
        let steps = plan(packages, &observed);
        for step in &steps {
            match step {
                Step::Use(package) => shared.store.take(&Key::of(package), uid)?,
                Step::Fetch(package) | Step::Join(package) => shared.join(uid, package),
            }
        }
        let observed = if steps.is_empty() { observed } else { shared.observe(uid, packages) };
        Ok(report(packages, &observed))
    }

    /// Where a package is once it is in place.
    #[must_use]
    pub fn content(&self, package: &Package) -> PathBuf {
        self.0.0.store.content(package)
    }

    /// Stops waiting for packages that are not in place: what nobody waits for is fetched no more.
    pub fn leave(&self, uid: Uuid) {
        self.0.0.fetches.lock().retain(|_, fetch| {
            fetch.wait.remove(&uid);
            if !fetch.wait.is_empty() {
                return true;
            }
            fetch.stop.send_replace(true);
            // Whoever fetches it takes itself out of the list.
            matches!(fetch.state, State::Runs { .. })
        });
    }

    /// Ends an object's use of packages, and removes those that it was the last to use.
    ///
    /// # Errors
    /// When something could not be removed.
    pub fn release(&self, uid: Uuid) -> Result<(), StoreError> {
        self.leave(uid);
        let shared = &self.0.0;
        shared.store.release(uid, |key| shared.fetches.lock().contains_key(key))
    }
}

impl Shared {
    fn observe(&self, uid: Uuid, packages: &[Package]) -> Observed {
        let is_used = |package: &&Package| self.store.is_used_by(&Key::of(package), uid);
        let used = packages.iter().filter(is_used).cloned().collect();
        let presence = packages.iter().map(|one| (one.clone(), self.presence(uid, one)));
        Observed { used, presence: presence.collect() }
    }

    fn presence(&self, uid: Uuid, package: &Package) -> Presence {
        if self.store.is_ready(package) {
            return Presence::InPlace;
        }
        match self.fetches.lock().get(&Key::of(package)) {
            None => Presence::Absent,
            Some(fetch) => match &fetch.state {
                State::Runs { .. } if *fetch.stop.borrow() => Presence::Ending,
                State::Runs { trouble } => Presence::Fetched { trouble: trouble.clone() },
                // What failed for others, or from elsewhere, may come for this one.
                State::Failed(why) if fetch.wait.contains(&uid) && fetch.package == *package => {
                    Presence::Impossible(why.clone())
                }
                State::Failed(_) => Presence::Absent,
            },
        }
    }

    /// Waits for a package, which is fetched from now on if it was not.
    fn join(self: &Arc<Self>, uid: Uuid, package: &Package) {
        let mut fetches = self.fetches.lock();
        let key = Key::of(package);
        if let Some(fetch) = fetches.get_mut(&key)
            && matches!(fetch.state, State::Runs { .. })
        {
            if !*fetch.stop.borrow() {
                fetch.wait.insert(uid);
            }
            return;
        }
        let (stop, stopped) = watch::channel(false);
        let state = State::Runs { trouble: None };
        let (package, wait) = (package.clone(), [uid].into());
        fetches.insert(key, Fetch { package: package.clone(), wait, stop, state });
        drop(fetches);
        let own = Arc::clone(self);
        let handle = Handle::current();
        // A thread that may block: a file system may hang, and an archive takes a while.
        handle.clone().spawn_blocking(move || own.run(&handle, &package, &stopped));
    }

    /// Fetches a package to its end.
    fn run(&self, handle: &Handle, package: &Package, stop: &watch::Receiver<bool>) {
        let key = Key::of(package);
        let report = |error: &FetchError| self.failed(&key, package, error);
        let mut wanted = stop.clone();
        let work = async {
            tokio::select! {
                // Also when nobody is there any more who could stop it.
                _ = wanted.wait_for(|stop| *stop) => None,
                done = fetch(&self.store, package, stop, report) => Some(done),
            }
        };
        // A panic costs this package only. What it shares is behind locks that hold for one change each.
        let done = catch_unwind(AssertUnwindSafe(|| handle.block_on(work)));
        let done = done.unwrap_or_else(|_| {
            let defect = "a defect of this agent (report it with the log): it panicked".to_owned();
            Some(Err(FetchError::Panicked(defect)))
        });
        if !matches!(done, Some(Ok(())))
            && let Err(error) = self.store.discard(&key)
        {
            log::warn!("remove what came of package {}: {}", package.name, chain(&error));
        }
        self.ended(&key, package, done, *stop.borrow());
        // Its last user may have gone while it came.
        if let Err(error) = self.store.remove_unused(&key) {
            log::warn!("remove package {}: {}", package.name, chain(&error));
        }
    }

    fn failed(&self, key: &Key, package: &Package, error: &FetchError) {
        let why = chain(error);
        let Package { name, source, .. } = package;
        log::warn!("package {name} from {source}: {why}; the rabbit-agent retries within 1 min");
        if let Some(fetch) = self.fetches.lock().get_mut(key) {
            fetch.state = State::Runs { trouble: Some(why) };
        }
        self.changed.notify_one();
    }

    fn ended(
        &self,
        key: &Key,
        package: &Package,
        done: Option<Result<(), FetchError>>,
        is_stopped: bool,
    ) {
        let Package { name, source, .. } = package;
        let mut fetches = self.fetches.lock();
        match done {
            Some(Err(error)) if !is_stopped => {
                let why = chain(&error);
                log::warn!("package {name} from {source}: {why}");
                if let Some(fetch) = fetches.get_mut(key) {
                    fetch.state = State::Failed(why);
                }
            }
            done => {
                if matches!(done, Some(Ok(()))) {
                    log::info!("package {name} from {source} is in place");
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
