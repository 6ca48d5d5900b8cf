//! What of the API's troubles is worth a line in the log: each when it begins, when it changes, and when it is over,
//! however many watches have it and however often the agent tries again. Pure.

use std::collections::BTreeMap;

use apiclient::plain;
use kube::{Error as ApiError, core::Status, runtime::watcher};

use crate::write::Object;

/// What is wrong with a watch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// The API is away or overloaded: every watch has it, and one line is enough.
    Away(String),
    /// The API does not know this agent: likewise.
    Unknown(String),
    /// With this kind alone.
    Kind(String),
}

impl Trouble {
    fn text(&self) -> &str {
        match self {
            Self::Away(text) | Self::Unknown(text) | Self::Kind(text) => text,
        }
    }

    /// Of a watch on `K`; nothing when a watch ended that is simply begun again.
    pub(super) fn of<K: Object>(error: &watcher::Error) -> Option<Self> {
        match error {
            watcher::Error::InitialListFailed(cause) => Some(refused::<K>("list", cause)),
            watcher::Error::WatchStartFailed(cause) => Some(refused::<K>("watch", cause)),
            // Whether there is anything to it shows in the next try.
            watcher::Error::WatchFailed(_) => None,
            watcher::Error::WatchError(status) if status.code == 410 => None,
            watcher::Error::WatchError(status) => Some(answered::<K>("watch", status)),
            watcher::Error::NoResourceVersion => {
                Some(Self::Kind(format!("list {}: {error}; trying again", K::kind(&()))))
            }
        }
    }
}

fn refused<K: Object>(verb: &str, error: &ApiError) -> Trouble {
    let kind = K::kind(&());
    match error {
        ApiError::Api(status) => answered::<K>(verb, status),
        ApiError::SerdeError(cause) => {
            Trouble::Kind(format!("{verb} {kind}: the answer does not read: {cause}; trying again"))
        }
        _ => Trouble::Away(format!(
            "the API does not answer: {}; everything stays as it is, trying again",
            plain(error)
        )),
    }
}

fn answered<K: Object>(verb: &str, status: &Status) -> Trouble {
    let (kind, plural, version) = (K::kind(&()), K::plural(&()), K::version(&()));
    let (crd, message) = (format!("{plural}.{}", K::group(&())), &status.message);
    match status.code {
        401 => Trouble::Unknown(format!(
            "the API does not accept this agent's credentials ({message}): renew its token or certificate; trying again"
        )),
        403 => Trouble::Kind(format!(
            "the API does not let this agent {verb} {kind} ({message}): grant it get, list and watch on {crd}; trying again"
        )),
        404 => Trouble::Kind(format!(
            "the API does not know {kind} {version}: install the CRD {crd} that serves this version; waiting for it"
        )),
        429 | 500.. => Trouble::Away(format!(
            "the API answers {} {message}; everything stays as it is, trying again",
            status.code
        )),
        code => Trouble::Kind(format!("{verb} {kind}: {message} ({code}); trying again")),
    }
}

/// The troubles of all watches, as far as they were told.
#[derive(Debug, Default)]
pub(super) struct Said {
    watches: BTreeMap<String, Trouble>,
    unreadable: BTreeMap<String, String>,
}

impl Said {
    /// A watch failed: a line, if it is news.
    pub(super) fn failed(&mut self, kind: &str, trouble: Trouble) -> Option<String> {
        let known = self.watches.values().any(|told| *told == trouble);
        let text = trouble.text().to_owned();
        self.watches.insert(kind.to_owned(), trouble);
        (!known).then_some(text)
    }

    /// A watch got an answer with this HTTP status, which may be the end of what it had in common with others.
    pub(super) fn answered(&mut self, kind: &str, code: u16) -> Option<String> {
        let over = match self.watches.get(kind)? {
            Trouble::Away(_) => code < 500 && code != 429,
            Trouble::Unknown(_) => code < 500 && code != 429 && code != 401,
            Trouble::Kind(_) => false,
        };
        let over = if over { self.watches.remove(kind) } else { None }?;
        let another = self.watches.values().any(|it| !matches!(it, Trouble::Kind(_)));
        match over {
            _ if another => None,
            Trouble::Unknown(_) => {
                Some("the API accepts this agent's credentials again".to_owned())
            }
            Trouble::Away(_) | Trouble::Kind(_) => Some("the API answers again".to_owned()),
        }
    }

    /// A watch brought something.
    pub(super) fn well(&mut self, kind: &str) -> Option<String> {
        self.watches.remove(kind).map(|_| format!("watching {kind} again"))
    }

    /// An object does not read as what it should be.
    pub(super) fn unreadable(&mut self, object: &str, why: &str) -> Option<String> {
        let known = self.unreadable.insert(object.to_owned(), why.to_owned());
        (known.as_deref() != Some(why)).then(|| {
            format!("{object} cannot be read: {why}: correct or delete it; until then nothing of it is changed")
        })
    }

    /// It reads again, or is gone.
    pub(super) fn readable(&mut self, object: &str) {
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
        Trouble::of::<NnfNodeStorage>(&watcher::Error::InitialListFailed(cause)).unwrap()
    }

    #[test]
    fn each_refusal_names_what_is_missing() {
        for (code, message, told) in [
            (
                404,
                "not found",
                &["NnfNodeStorage v1alpha11", "nnfnodestorages.nnf.cray.hpe.com", "waiting"][..],
            ),
            (
                403,
                "user x cannot list",
                &["list NnfNodeStorage", "user x cannot list", "get, list and watch"],
            ),
            (401, "Unauthorized", &["credentials", "token"]),
            (429, "slow down", &["429 slow down", "stays as it is"]),
            (500, "etcdserver: no leader", &["500 etcdserver", "stays as it is"]),
            (400, "bad", &["list NnfNodeStorage: bad (400)"]),
        ] {
            let trouble = listing(code, message);
            for part in told {
                assert!(trouble.text().contains(part), "{code}: {trouble:?}");
            }
        }
    }

    #[test]
    fn a_watch_that_ends_or_is_too_old_is_begun_again_without_a_word() {
        for error in [
            watcher::Error::WatchError(status(410, "too old resource version")),
            watcher::Error::WatchFailed(ApiError::LinesCodecMaxLineLengthExceeded),
        ] {
            assert_eq!(Trouble::of::<ClientMount>(&error), None);
        }
    }

    #[test]
    fn an_api_that_is_away_is_one_line_for_all_watches_and_one_when_it_is_back() {
        let away = |why: &str| Trouble::Away(why.to_owned());
        let mut said = Said::default();
        assert_eq!(said.failed("A", away("refused")).as_deref(), Some("refused"));
        assert_eq!(said.failed("B", away("refused")), None);
        assert_eq!(said.failed("A", away("refused")), None, "tried again");
        assert_eq!(said.failed("A", away("reset")).as_deref(), Some("reset"), "it changed");
        assert_eq!(said.answered("A", 503), None);
        assert_eq!(said.answered("A", 200), None, "B is still away");
        assert_eq!(said.answered("B", 200).as_deref(), Some("the API answers again"));
        assert_eq!(said.answered("B", 200), None);
        assert_eq!(said.well("A"), None);
    }

    #[test]
    fn a_kind_that_is_refused_is_well_only_when_it_brings_something() {
        let mut said = Said::default();
        assert!(said.failed("A", listing(404, "no")).is_some());
        assert_eq!(said.answered("A", 200), None);
        assert_eq!(said.well("A").as_deref(), Some("watching A again"));
    }

    #[test]
    fn credentials_are_accepted_again_when_something_else_is_refused() {
        let mut said = Said::default();
        assert!(said.failed("A", listing(401, "Unauthorized")).is_some());
        assert_eq!(said.answered("A", 401), None);
        let told = said.answered("A", 404).unwrap();
        assert!(told.contains("credentials again"), "{told}");
    }

    #[test]
    fn an_object_that_cannot_be_read_is_told_once_for_each_reason() {
        let mut said = Said::default();
        assert!(said.unreadable("ClientMount a/b", "no spec").is_some());
        assert_eq!(said.unreadable("ClientMount a/b", "no spec"), None);
        assert!(said.unreadable("ClientMount a/b", "no node").is_some());
        said.readable("ClientMount a/b");
        assert!(said.unreadable("ClientMount a/b", "no node").is_some());
    }
}
