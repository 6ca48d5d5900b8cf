//! Watches on the API, one per kind: the rabbit's own namespace, the SystemConfiguration, and the profiles.

use std::fmt;

use api::{
    ClientMount, NnfNode, NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile,
    SystemConfiguration, names::SYSTEM_CONFIGURATION,
};
use apiclient::plain_watch;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::{
    Api, Client,
    runtime::{
        WatchStreamExt,
        watcher::{self, Config, Event, watcher},
    },
};
use storage::desired::NodeName;

use crate::{
    world::{Kept, Tell, Wake, World},
    write::Object,
};

/// One event of one watch, on its way to the world.
pub struct Told(Tell);

impl Told {
    fn of<K: Kept>(event: Event<K>) -> Self {
        Self(Box::new(move |world| world.take(event)))
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
    let everything = Config::default();
    let one = Config::default().fields(&format!("metadata.name={SYSTEM_CONFIGURATION}"));
    stream::select_all([
        of::<ClientMount>(Api::namespaced(client.clone(), node), everything.clone()),
        of::<NnfNodeBlockStorage>(Api::namespaced(client.clone(), node), everything.clone()),
        of::<NnfNodeStorage>(Api::namespaced(client.clone(), node), everything.clone()),
        of::<NnfNode>(Api::namespaced(client.clone(), node), everything.clone()),
        of::<NnfStorageProfile>(Api::all(client.clone()), everything),
        of::<SystemConfiguration>(Api::namespaced(client.clone(), SYSTEM_CONFIGURATION), one),
    ])
    .boxed()
}

fn of<K: Kept>(api: Api<K>, config: Config) -> BoxStream<'static, Told> {
    let mut said = Said::default();
    let retried = watcher(api, config).default_backoff();
    let told = retried.filter_map(move |result| {
        let event = match result {
            Ok(event) => {
                // Every try begins with Init, also one that then fails.
                if !matches!(event, Event::Init) {
                    said.well(K::kind(&()).as_ref());
                }
                Some(event)
            }
            Err(error) => {
                said.failed(problem::<K>(&error));
                None
            }
        };
        std::future::ready(event.map(Told::of))
    });
    told.boxed()
}

/// A failure is said when it begins and when it changes, not every time it is tried again.
#[derive(Debug, Default)]
struct Said(String);

impl Said {
    fn failed(&mut self, problem: String) {
        if self.0 != problem {
            log::warn!("{problem}");
            self.0 = problem;
        }
    }

    fn well(&mut self, kind: &str) {
        if !self.0.is_empty() {
            log::info!("watching {kind} again");
            self.0.clear();
        }
    }
}

fn problem<K: Object>(error: &watcher::Error) -> String {
    let cause = match error {
        watcher::Error::InitialListFailed(cause) | watcher::Error::WatchStartFailed(cause) => {
            Some(cause)
        }
        watcher::Error::WatchFailed(_)
        | watcher::Error::WatchError(_)
        | watcher::Error::NoResourceVersion => None,
    };
    let (kind, plural) = (K::kind(&()), K::plural(&()));
    let crd = format!("{plural}.{}", K::group(&()));
    match cause {
        Some(kube::Error::Api(status)) if status.code == 404 => {
            format!(
                "the API does not know {kind} {}: install the CRD {crd}; waiting for it",
                K::version(&())
            )
        }
        Some(kube::Error::Api(status)) if status.code == 403 || status.code == 401 => {
            format!(
                "the API does not let this agent watch {kind}: grant it get, list and watch on {crd}; trying again"
            )
        }
        _ => format!("watch {kind}: {}; trying again", plain_watch(error)),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_missing_crd_is_named() {
        let status = Status { code: 404, ..Status::default() };
        let error = watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)));
        let text = problem::<NnfNodeStorage>(&error);
        assert!(
            text.contains("nnfnodestorages.nnf.cray.hpe.com")
                && text.contains("NnfNodeStorage v1alpha11"),
            "{text}"
        );
    }
}
