//! Watches on the API, one per kind: the rabbit's own namespace, the SystemConfiguration, and the profiles.

mod said;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use api::{
    ClientMount, NnfLustreMgt, NnfNode, NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile,
    SystemConfiguration, names::SYSTEM_CONFIGURATION,
};
use apiclient::{WatchBackoff, listening};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::{
    Api, Client, ResourceExt,
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt,
        watcher::{Config, Event, watcher},
    },
};
use storage::desired::NodeName;

use self::said::{Said, Trouble};
use crate::world::{Kept, Tell, Wake, World};

/// One event of one watch, on its way to the world.
pub struct Told(Tell);

impl Told {
    fn of<K: Kept>(event: Event<K>) -> Self {
        Self(Box::new(move |world| world.take(event)))
    }

    /// Who is fenced has changed.
    pub(crate) fn of_fences() -> Self {
        Self(Box::new(|world| world.fences_changed()))
    }

    /// Something of the node moved, and nothing of the API's.
    #[must_use]
    pub fn of_node() -> Self {
        Self(Box::new(|world| world.node_moved()))
    }

    /// Tells the world.
    pub fn tell(self, world: &mut World) -> Vec<Wake> {
        (self.0)(world)
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").finish_non_exhaustive()
    }
}

/// Everything that concerns the rabbit `node`, from now on and for ever. What fails is said once and tried again.
#[must_use]
pub fn watch(client: &Client, node: &NodeName) -> BoxStream<'static, Told> {
    let node = node.as_str();
    let said = Watching { client: client.clone(), said: Arc::default() };
    let everything = Config::default();
    let one = Config::default().fields(&format!("metadata.name={SYSTEM_CONFIGURATION}"));
    stream::select_all([
        said.of::<ClientMount>(Some(node), everything.clone()),
        said.of::<NnfNodeBlockStorage>(Some(node), everything.clone()),
        said.of::<NnfNodeStorage>(Some(node), everything.clone()),
        said.of::<NnfNode>(Some(node), everything.clone()),
        said.of::<NnfLustreMgt>(Some(node), everything.clone()),
        said.of::<NnfStorageProfile>(None, everything),
        said.of::<SystemConfiguration>(Some(SYSTEM_CONFIGURATION), one),
    ])
    .boxed()
}

/// What the watches have in common.
struct Watching {
    client: Client,
    said: Arc<Mutex<Said>>,
}

impl Watching {
    /// One kind, object by object: one that does not read as what it should be must not hide the others.
    fn of<K: Kept>(&self, namespace: Option<&str>, config: Config) -> BoxStream<'static, Told> {
        let said = Arc::clone(&self.said);
        let client = listening(self.client.clone(), move |answer| {
            let line = lock(&said).answered(&K::kind(&()), answer.status);
            line.into_iter().for_each(|line| log::info!("{line}"));
        });
        let api: Api<DeserializeGuard<K>> = match namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        };
        let said = Arc::clone(&self.said);
        let kind = K::kind(&());
        let told =
            watcher(api, config).backoff(WatchBackoff::default()).filter_map(move |result| {
                let told = match result {
                    Ok(event) => {
                        // Every try begins with Init, also one that then fails.
                        let well = if matches!(event, Event::Init) {
                            None
                        } else {
                            lock(&said).well(&kind)
                        };
                        well.into_iter().for_each(|line| log::info!("{line}"));
                        Some(read(event, &said))
                    }
                    Err(error) => {
                        let trouble = Trouble::of::<K>(&error);
                        let line = trouble.and_then(|trouble| lock(&said).failed(&kind, trouble));
                        line.into_iter().for_each(|line| log::warn!("{line}"));
                        None
                    }
                };
                std::future::ready(told)
            });
        told.boxed()
    }
}

fn read<K: Kept>(event: Event<DeserializeGuard<K>>, said: &Mutex<Said>) -> Told {
    let named = |object: &DeserializeGuard<K>| {
        let namespace = object.namespace().unwrap_or_default();
        format!("{} {namespace}/{}", K::kind(&()), object.name_any())
    };
    let (object, whole): (_, fn(K) -> Event<K>) = match event {
        Event::Init => return Told::of::<K>(Event::Init),
        Event::InitDone => return Told::of::<K>(Event::InitDone),
        Event::Delete(object) => {
            lock(said).readable(&named(&object));
            let metadata = kube::Resource::meta(&object).clone();
            return match object.0 {
                Ok(object) => Told::of(Event::Delete(object)),
                Err(_) => Told(Box::new(move |world| world.take_end::<K>(&metadata))),
            };
        }
        Event::InitApply(object) => (object, Event::InitApply),
        Event::Apply(object) => (object, Event::Apply),
    };
    let name = named(&object);
    match object.0 {
        Ok(object) => {
            lock(said).readable(&name);
            Told::of(whole(object))
        }
        Err(invalid) => {
            let line = lock(said).unreadable(&name, &invalid.error);
            line.into_iter().for_each(|line| log::warn!("{line}"));
            Told(Box::new(move |world| world.take_unreadable::<K>(invalid.metadata)))
        }
    }
}

fn lock(said: &Mutex<Said>) -> MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}
