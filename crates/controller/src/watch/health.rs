//! Logs the troubles (faults) of watches. A trouble is logged once when it begins, once when it changes and once when
//! it ends, however many watches have the trouble, and however often they retry.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use apiclient::plain;
use kube::{Error as ApiError, api::ApiResource, core::Status, runtime::watcher};

use super::{Event, Item};
use crate::object::Object;

/// Fault of a watch, with a text for the person who can mend it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// The API does not answer, or is overloaded. All watches have this trouble at the same time, so it
    /// is logged only once.
    Away(String),
    /// The API does not accept the program's credentials. All watches have this trouble at the same time, so it
    /// is logged only once.
    Unauthorized(String),
    /// A trouble that concerns one kind only, for example a missing right.
    Kind(String),
    /// The API does not serve this kind.
    Unserved(String),
}

impl Trouble {
    /// Returns the text of the trouble: its cause, and the remedy if a remedy is known.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Away(text)
            | Self::Unauthorized(text)
            | Self::Kind(text)
            | Self::Unserved(text) => text,
        }
    }

    /// Returns the trouble that an error reports. Returns `None` if a watch wanted to resume from a resourceVersion
    /// that the API no longer has: this is no fault, the watch lists again.
    #[must_use]
    pub fn from_error(resource: &ApiResource, error: &watcher::Error) -> Option<Self> {
        match error {
            watcher::Error::InitialListFailed(cause) => {
                Some(trouble_of_error("list", resource, cause))
            }
            watcher::Error::WatchStartFailed(cause) => {
                Some(trouble_of_error("watch", resource, cause))
            }
            watcher::Error::WatchFailed(cause) => Some(trouble_of_error("watch", resource, cause)),
            watcher::Error::WatchError(status) if status.code == 410 => None,
            watcher::Error::WatchError(status) => {
                Some(trouble_of_status("watch", resource, status))
            }
            watcher::Error::NoResourceVersion => Some(Self::Kind(format!(
                "list {}: {error}; this program tries again",
                resource.kind
            ))),
        }
    }
}

fn trouble_of_error(verb: &str, resource: &ApiResource, error: &ApiError) -> Trouble {
    match error {
        ApiError::Api(status) => trouble_of_status(verb, resource, status),
        ApiError::SerdeError(cause) => Trouble::Kind(format!(
            "{verb} {}: the answer cannot be decoded: {cause}; this program tries again",
            resource.kind
        )),
        _ => Trouble::Away(format!(
            "the API does not answer: {}; this program changes nothing until it answers, and tries again",
            plain(error)
        )),
    }
}

fn trouble_of_status(verb: &str, resource: &ApiResource, status: &Status) -> Trouble {
    let ApiResource { kind, plural, version, group, .. } = resource;
    let (crd, message) = (format!("{plural}.{group}"), &status.message);
    match status.code {
        401 => Trouble::Unauthorized(format!(
            "the API does not accept this program's credentials ({message}): renew its token or certificate; this program tries again"
        )),
        403 => Trouble::Kind(format!(
            "the API refuses this program the right to {verb} {kind} ({message}): grant get, list and watch on {crd} to it; this program tries again"
        )),
        404 => Trouble::Unserved(format!(
            "the API does not serve {kind} {version}: install the CRD {crd} that serves this version; this program waits for it"
        )),
        429 | 500.. => Trouble::Away(format!(
            "the API answers {} {message}; this program changes nothing until it answers without an error, and tries again",
            status.code
        )),
        code => {
            Trouble::Kind(format!("{verb} {kind}: {message} ({code}); this program tries again"))
        }
    }
}

/// The troubles of all watches of a program.
#[derive(Debug, Clone, Default)]
pub struct WatchHealth(Arc<Mutex<Known>>);

impl WatchHealth {
    /// Logs the trouble that an event of the watch on `K` reports, unless this trouble was logged already. Logs the end
    /// of a trouble too.
    pub fn log<K: Object>(&self, event: &Event<K>) {
        match event {
            Event::Listed(items) => items.iter().for_each(|item| self.log_item(item)),
            Event::Applied(item) => self.log_item(item),
            Event::Deleted(item) => self.lock().readable(&name(item)),
            Event::Failing(trouble) => self.failing(&K::kind(&()), trouble),
            Event::Working => self.working(&K::kind(&())),
        }
    }

    /// Logs that the watch on a kind fails, unless that was logged already.
    pub fn failing(&self, kind: &str, trouble: &Trouble) {
        let line = self.lock().failed(kind, trouble);
        line.into_iter().for_each(|line| log::warn!(kind; "{line}"));
    }

    /// Logs that the watch on a kind works again, if it failed before.
    pub fn working(&self, kind: &str) {
        let line = self.lock().works(kind);
        line.into_iter().for_each(|line| log::info!(kind; "{line}"));
    }

    /// Returns the kinds whose watches fail, each with the text of its trouble.
    #[must_use]
    pub fn broken(&self) -> Vec<(String, String)> {
        let known = self.lock();
        let watches = known.watches.iter();
        watches.map(|(kind, trouble)| (kind.clone(), trouble.text().to_owned())).collect()
    }

    /// Returns whether the watch on a kind fails.
    #[must_use]
    pub fn is_broken(&self, kind: &str) -> bool {
        self.lock().watches.contains_key(kind)
    }

    fn log_item<K: Object>(&self, item: &Item<K>) {
        let name = name(item);
        match item {
            Ok(_) => self.lock().readable(&name),
            Err(unreadable) => {
                let line = self.lock().unreadable(&name, &unreadable.why);
                line.into_iter().for_each(|line| log::warn!("{line}"));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name<K: Object>(item: &Item<K>) -> String {
    let metadata =
        item.as_ref().map_or_else(|unreadable| &*unreadable.metadata, |object| object.meta());
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{} {}/{}", K::kind(&()), text(&metadata.namespace), text(&metadata.name))
}

/// The troubles that were logged and have not ended.
#[derive(Debug, Default)]
struct Known {
    watches: BTreeMap<String, Trouble>,
    unreadable: BTreeMap<String, String>,
}

impl Known {
    fn failed(&mut self, kind: &str, trouble: &Trouble) -> Option<String> {
        let is_known = self.watches.values().any(|known| known == trouble);
        self.watches.insert(kind.to_owned(), trouble.clone());
        (!is_known).then(|| trouble.text().to_owned())
    }

    /// Records that a watch works. The end of a trouble that all watches had is logged when the last of
    /// these watches works again.
    fn works(&mut self, kind: &str) -> Option<String> {
        let over = self.watches.remove(kind)?;
        let is_own = |trouble: &Trouble| matches!(trouble, Trouble::Kind(_) | Trouble::Unserved(_));
        let others = || self.watches.values().any(|known| !is_own(known));
        match over {
            Trouble::Kind(_) | Trouble::Unserved(_) => Some(format!("{kind} is watched again")),
            _ if others() => None,
            Trouble::Unauthorized(_) => {
                Some("the API accepts this program's credentials again".to_owned())
            }
            Trouble::Away(_) => Some("the API answers again".to_owned()),
        }
    }

    fn unreadable(&mut self, object: &str, why: &str) -> Option<String> {
        let known = self.unreadable.insert(object.to_owned(), why.to_owned());
        (known.as_deref() != Some(why)).then(|| {
            format!("{object} cannot be read: {why}: correct or delete the object; until then this program changes nothing that belongs to it")
        })
    }

    /// Records that an unreadable object can be read again, or has been deleted.
    fn readable(&mut self, object: &str) {
        self.unreadable.remove(object);
    }
}

#[cfg(test)]
mod tests {
    use api::{ClientMount, NnfNodeStorage};

    use super::*;

    fn status(code: u16, message: &str) -> Box<Status> {
        Box::new(Status { code, message: message.into(), ..Status::default() })
    }

    fn listing(code: u16, message: &str) -> Trouble {
        let cause = ApiError::Api(status(code, message));
        let resource = ApiResource::erase::<NnfNodeStorage>(&());
        Trouble::from_error(&resource, &watcher::Error::InitialListFailed(cause)).unwrap()
    }

    #[test]
    fn each_refusal_names_what_is_missing() {
        for (code, message, parts) in [
            (
                404,
                "not found",
                &["NnfNodeStorage v1alpha11", "nnfnodestorages.nnf.cray.hpe.com", "waits"][..],
            ),
            (
                403,
                "user x cannot list",
                &["list NnfNodeStorage", "user x cannot list", "get, list and watch"],
            ),
            (401, "Unauthorized", &["credentials", "token"]),
            (429, "slow down", &["429 slow down", "changes nothing"]),
            (500, "etcdserver: no leader", &["500 etcdserver", "changes nothing"]),
            (400, "bad", &["list NnfNodeStorage: bad (400)"]),
        ] {
            let trouble = listing(code, message);
            for part in parts {
                assert!(trouble.text().contains(part), "{code}: {trouble:?}");
            }
        }
    }

    #[test]
    fn an_expired_watch_begins_again_without_a_log_line() {
        let resource = ApiResource::erase::<ClientMount>(&());
        let error = watcher::Error::WatchError(status(410, "too old resource version"));
        assert_eq!(Trouble::from_error(&resource, &error), None);
        let error = watcher::Error::WatchFailed(ApiError::LinesCodecMaxLineLengthExceeded);
        assert!(matches!(Trouble::from_error(&resource, &error), Some(Trouble::Away(_))));
    }

    #[test]
    fn an_outage_is_logged_once_for_all_watches_and_once_when_it_ends() {
        let away = |why: &str| Trouble::Away(why.to_owned());
        let mut known = Known::default();
        assert_eq!(known.failed("A", &away("refused")).as_deref(), Some("refused"));
        assert_eq!(known.failed("B", &away("refused")), None);
        assert_eq!(
            known.failed("A", &away("refused")),
            None,
            "the second failure for the same reason is not logged"
        );
        assert_eq!(
            known.failed("A", &away("reset")).as_deref(),
            Some("reset"),
            "a watch that fails for another reason is logged again"
        );
        assert_eq!(known.works("A"), None, "the watch on B still fails");
        assert_eq!(known.works("B").as_deref(), Some("the API answers again"));
        assert_eq!(known.works("B"), None);
    }

    #[test]
    fn the_end_of_a_refusal_is_logged_with_the_kind() {
        let mut known = Known::default();
        assert!(known.failed("A", &listing(404, "no")).is_some());
        assert_eq!(known.works("A").as_deref(), Some("A is watched again"));
    }

    #[test]
    fn the_end_of_refused_credentials_is_logged_while_another_watch_lacks_its_crd() {
        let mut known = Known::default();
        assert!(known.failed("A", &listing(401, "Unauthorized")).is_some());
        assert_eq!(known.failed("B", &listing(401, "Unauthorized")), None);
        let line = known.failed("A", &listing(404, "no")).unwrap();
        assert!(line.contains("install the CRD"), "{line}");
        let line = known.works("B").unwrap();
        assert!(line.contains("credentials again"), "{line}");
    }

    #[test]
    fn an_unreadable_object_is_logged_once_for_each_reason() {
        let mut known = Known::default();
        assert!(known.unreadable("ClientMount a/b", "no spec").is_some());
        assert_eq!(known.unreadable("ClientMount a/b", "no spec"), None);
        assert!(known.unreadable("ClientMount a/b", "no node").is_some());
        known.readable("ClientMount a/b");
        assert!(known.unreadable("ClientMount a/b", "no node").is_some());
    }
}
