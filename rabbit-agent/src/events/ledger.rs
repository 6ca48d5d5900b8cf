//! Which news is told, and which is none. Pure: the clock comes in as an argument.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::ObjectReference;

use super::News;

/// So many at once, and then one in so long: a chassis that loses power must not bury the cluster's Events.
const AT_ONCE: u32 = 32;
const ONE_IN: Duration = Duration::from_secs(6);

/// What was told, and how the API took it.
#[derive(Debug)]
pub(super) struct Ledger {
    quiet: Duration,
    pause: Duration,
    told: BTreeMap<Key, Instant>,
    left: u32,
    filled: Option<Instant>,
    /// Nothing is told before then.
    resumes: Option<Instant>,
    failure: Option<String>,
}

/// Whose news, of which part, and which.
type Key = (Option<String>, Option<String>, Option<String>, &'static str);

impl Ledger {
    pub(super) fn new(quiet: Duration, pause: Duration) -> Self {
        let (told, left, filled) = (BTreeMap::new(), AT_ONCE, None);
        Self { quiet, pause, told, left, filled, resumes: None, failure: None }
    }

    /// Whether to tell it; then it counts as told.
    pub(super) fn admits(&mut self, of: &ObjectReference, news: &News, now: Instant) -> bool {
        if self.resumes.is_some_and(|resumes| now < resumes) {
            return false;
        }
        self.told.retain(|_, at| now.saturating_duration_since(*at) < self.quiet);
        let uid = of.uid.clone().or_else(|| of.name.clone());
        let key = (of.kind.clone(), uid, of.field_path.clone(), news.reason);
        if self.told.contains_key(&key) || !self.takes(now) {
            return false;
        }
        self.told.insert(key, now);
        true
    }

    fn takes(&mut self, now: Instant) -> bool {
        let filled = *self.filled.get_or_insert(now);
        let more = now.saturating_duration_since(filled).as_secs() / ONE_IN.as_secs();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        if more > 0 {
            self.left = self.left.saturating_add(more).min(AT_ONCE);
            self.filled = Some(now);
        }
        self.left.checked_sub(1).map(|left| self.left = left).is_some()
    }

    pub(super) fn told(&mut self) {
        self.failure = None;
    }

    /// Nothing is tried for a while. The reason, when it is news.
    pub(super) fn refused(&mut self, why: String, now: Instant) -> Option<String> {
        self.resumes = Some(now + self.pause);
        self.failed(why)
    }

    /// The reason, when it is news.
    pub(super) fn failed(&mut self, why: String) -> Option<String> {
        let is_news = self.failure.as_ref() != Some(&why);
        self.failure = Some(why.clone());
        is_news.then_some(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_secs(600);

    fn of(uid: &str) -> ObjectReference {
        ObjectReference { uid: Some(uid.into()), ..ObjectReference::default() }
    }

    fn news(reason: &'static str) -> News {
        News::warning(reason, "Look", "why".to_owned())
    }

    #[test]
    fn the_same_news_is_told_once_in_a_while() {
        let (mut ledger, now) = (Ledger::new(QUIET, QUIET), Instant::now());
        assert!(ledger.admits(&of("a"), &news("DriveFailed"), now));
        assert!(!ledger.admits(&of("a"), &news("DriveFailed"), now));
        assert!(ledger.admits(&of("b"), &news("DriveFailed"), now), "another object");
        assert!(ledger.admits(&of("a"), &news("ComputeFenced"), now), "other news");
        let part = ObjectReference { field_path: Some("status.drives{x}".into()), ..of("a") };
        assert!(ledger.admits(&part, &news("DriveFailed"), now), "another part");
        assert!(ledger.admits(&of("a"), &news("DriveFailed"), now + QUIET));
    }

    #[test]
    fn many_at_once_are_not_all_told_and_later_ones_are() {
        let (mut ledger, now) = (Ledger::new(QUIET, QUIET), Instant::now());
        let mut told = |from: u32, now| {
            let all = (from..from + 100)
                .filter(|it| ledger.admits(&of(&it.to_string()), &news("X"), now));
            all.count()
        };
        assert_eq!(told(0, now), AT_ONCE as usize);
        assert_eq!(told(100, now), 0);
        assert_eq!(told(200, now + ONE_IN * 3), 3);
    }

    #[test]
    fn a_refusal_is_said_once_and_ends_the_telling_for_a_while() {
        let pause = Duration::from_secs(3600);
        let (mut ledger, now) = (Ledger::new(QUIET, pause), Instant::now());
        assert!(ledger.admits(&of("a"), &news("X"), now));
        assert_eq!(ledger.refused("forbidden".into(), now), Some("forbidden".to_owned()));
        assert!(!ledger.admits(&of("b"), &news("X"), now + QUIET));
        assert!(ledger.admits(&of("b"), &news("X"), now + pause));
        assert_eq!(ledger.refused("forbidden".into(), now + pause), None);
        ledger.told();
        assert!(ledger.failed("away".into()).is_some() && ledger.failed("away".into()).is_none());
    }
}
