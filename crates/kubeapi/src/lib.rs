//! An embedded, durable Kubernetes API: a tower Service over a local store.
//!
//! ```text
//! request ─ routes, request ─► verb ─► writer thread ─ admit ─► batch ─ one fsync ─► memory ─► answer
//!                               │                                                      └─► log ─► watches
//!                               └─ reads, lists: from memory
//! ```
//!
//! Guarantees
//! * A write that was answered is on stable storage; a write that failed changed nothing that a client can see.
//! * Every change has its own resourceVersion. A watch that resumes from a resourceVersion sees each later change once,
//!   also after a restart of the server. If the log of changes no longer reaches back to this resourceVersion, the
//!   server answers 410.
//! * The commit that deletes an owner, namespace or CRD also deletes its dependents.
//! * The server refuses a store file that is damaged, or that has lost an answered write; the error names the file. If
//!   the file is intact but one object in it cannot be decoded, only that object is missing, and a log line names it.
//! * `/backup`, which kube-apiserver does not have, returns all stored objects at one revision.
//! * Nothing polls: without requests and changes no thread wakes.
//! * A panic of the writer thread ends the process in every build profile. After a restart the server has every write
//!   that it answered.
//!
//! Admission
//! * An [`Admission`] completes new objects, and admits or refuses changes, where kube-apiserver calls webhooks.
//! * `kubeapi` evaluates no CEL. Its CRDs (`api::crd_values`) contain no CEL rules; the admission functions enforce the
//!   same rules in Rust. Clusters get CRDs with CEL rules (`api::ruled_crd_values`). The same test vectors test the
//!   rules in CEL and in Rust.
//!
//! Assumptions
//! * One process owns the directory; every client that reaches the service may do everything.
//! * Memory holds all objects, and a few copies of them.
//!
//! A request that needs a feature that is not implemented is refused with a `Status` that names the feature. Not
//! implemented are server-side apply, the scale subresource, webhooks, conversions that change more than the version's
//! name, and every schema keyword that Warren's own CRDs do not use, CEL rules among them.

mod access;
mod admission;
mod body;
mod credentials;
mod events;
mod form;
mod garbage;
mod metadata;
mod names;
mod object;
mod openapi;
mod registry;
mod request;
mod routes;
mod schema;
mod selector;
pub mod serve;
mod service;
mod status;
mod store;
mod value;
mod verbs;

pub use access::{Access, Rights, Verb};
pub use admission::{Admission, Change, Operation};
pub use body::Body;
pub use credentials::{Credentials, CredentialsError};
pub use service::ApiService;
pub use status::Status;
pub use store::backup::{RestoreError, Restored, restore};

use serde_json::{Value, json};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use store::{DiskError, Job, Rules, Store};
use thiserror::Error;

/// Namespaces that every API has from the start.
const FIRST_NAMESPACES: [&str; 2] = ["default", "kube-system"];

#[derive(Debug, Clone)]
pub struct Config {
    /// Directory of the store, created with mode 0700 if absent. Only one process at a time may use the directory.
    pub directory: PathBuf,
    /// CustomResourceDefinitions that are installed or updated when the API opens.
    pub crds: Vec<Value>,
    /// Number of changes that the log keeps: a watch that is further behind cannot resume. The log keeps fewer changes
    /// when their objects exceed 64 MiB together.
    pub history: usize,
    /// Functions that complete new objects and admit or refuse changes, see [`Admission`].
    pub admission: Admission,
}

impl Config {
    /// Returns a configuration with a history of ten thousand changes, no CRDs, and an [`Admission`]
    /// that admits every change.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            crds: Vec::new(),
            history: 10_000,
            admission: Admission::default(),
        }
    }
}

/// User that the log, the rights and the admission functions see. Without [`Rights`], an identity may do everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
}

#[derive(Debug, Error)]
pub enum OpenError {
    #[error("the directory {} cannot be created", directory.display())]
    MakeDirectory { directory: PathBuf, source: std::io::Error },
    #[error("the store in {} cannot be opened", directory.display())]
    OpenStore { directory: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    /// The file is damaged: the API does not open. Restore a backup.
    #[error("the store file {} cannot be relied on", file.display())]
    Damaged { file: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("{what} cannot be installed")]
    Install { what: String, source: Status },
}

impl OpenError {
    fn of_store(directory: PathBuf, error: DiskError) -> Self {
        match error.is_damage() {
            true => Self::Damaged { file: store::file(&directory), source: Box::new(error) },
            false => Self::OpenStore { directory, source: Box::new(error) },
        }
    }
}

/// Creates the directory of a store, for its owner alone.
fn make_directory(directory: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

#[derive(Debug, Clone)]
pub struct Api {
    store: Arc<Store>,
}

impl Api {
    /// Opens the store, starts its writer thread, and installs the first namespaces and the CRDs. Blocks for a few
    /// fsyncs. Needs no async runtime, but the caller may be an async task.
    ///
    /// # Errors
    /// If the directory or the store cannot be used, or if a CRD needs a feature that this server does not have.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        let directory = config.directory;
        make_directory(&directory)
            .map_err(|source| OpenError::MakeDirectory { directory: directory.clone(), source })?;
        let rules =
            Rules { collect_garbage: garbage::collect_garbage, admission: config.admission };
        let store = Store::open(&directory, config.history, &config.crds, rules)
            .map_err(|error| OpenError::of_store(directory, error))?;
        let api = Self { store: Arc::new(store) };
        for name in FIRST_NAMESPACES {
            api.install(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
            )?;
        }
        for crd in config.crds {
            api.install(crd)?;
        }
        Ok(api)
    }

    /// Returns the API for `identity`: a tower Service for `kube::Client::new` or an HTTP server.
    pub fn service(&self, identity: Identity) -> ApiService {
        ApiService::new(self, identity)
    }

    /// Returns an object, as a client gets it; `None` if it does not exist. `resource` is the plural of its kind, with a dot
    /// and the group unless that is the core group.
    pub fn read(&self, resource: &str, namespace: &str, name: &str) -> Option<serde_json::Value> {
        let key = object::Key {
            resource: resource.into(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let state = self.store.shared.read();
        serde_json::from_slice(&state.objects.get(&key)?.json).ok()
    }

    /// Returns true if an object of a kind in a namespace has a label with this value.
    pub fn has_labelled(&self, resource: &str, namespace: &str, label: (&str, &str)) -> bool {
        let first = object::Key {
            resource: resource.into(),
            namespace: namespace.to_owned(),
            name: String::new(),
        };
        let state = self.store.shared.read();
        let all = state.objects.range(first..);
        let mut all =
            all.take_while(|(key, _)| *key.resource == *resource && key.namespace == namespace);
        all.any(|(_, stored)| stored.labels.iter().any(|(key, value)| (&**key, &**value) == label))
    }

    /// Ends all watches, finishes queued writes and closes the store. Later writes answer 503.
    pub fn close(&self) {
        self.store.close();
    }

    fn install(&self, object: Value) -> Result<(), OpenError> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("?");
        let what = format!("{} {}", text("/kind"), text("/metadata/name"));
        let failed = |source: Status| OpenError::Install { what: what.clone(), source };
        // Uses a channel of the standard library: the caller of `open` may be an async task, and tokio's channels
        // report "not ready" to a task that has run for long without yielding.
        let (reply, answer) = mpsc::sync_channel(1);
        let apply =
            Box::new(move |batch: &mut store::Batch<'_>| verbs::install::install(batch, object));
        let reply = Box::new(move |result| drop(reply.send(result)));
        self.store.submit(Job { apply, dry_run: false, reply }).map_err(failed)?;
        let stopped = |_| Status::unavailable("the store's writer has stopped");
        answer.recv().map_err(stopped).and_then(|result| result).map(drop).map_err(failed)
    }
}
