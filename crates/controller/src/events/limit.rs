//! Decides which notes are published, and at which rate. This module does no I/O; the time is an argument.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::ObjectReference;

use super::Note;

/// Number of notes that may be published at once. After them, one more note may be published in each [`ONE_IN`], so
/// that the many notes about a chassis that loses power do not flood the cluster.
const AT_ONCE: u32 = 32;
const ONE_IN: Duration = Duration::from_secs(6);

/// Remembers which notes were published and how many more may be, and whether the API refused the last Events.
#[derive(Debug)]
pub(super) struct Limiter {
    quiet: Duration,
    pause: Duration,
    published: BTreeMap<Key, Instant>,
    left: u32,
    filled: Option<Instant>,
    /// Time before which no note is published.
    resumes: Option<Instant>,
    failure: Option<String>,
}

/// Kind and uid or name of the object, part of the object, and reason of the note.
type Key = (Option<String>, Option<String>, Option<String>, &'static str);

impl Limiter {
    pub(super) fn new(quiet: Duration, pause: Duration) -> Self {
        let (published, left, filled) = (BTreeMap::new(), AT_ONCE, None);
        Self { quiet, pause, published, left, filled, resumes: None, failure: None }
    }

    /// Returns whether to publish a note about an object; if so, records the note as published.
    pub(super) fn admits(&mut self, about: &ObjectReference, note: &Note, now: Instant) -> bool {
        if self.resumes.is_some_and(|resumes| now < resumes) {
            return false;
        }
        self.published.retain(|_, at| now.saturating_duration_since(*at) < self.quiet);
        let uid = about.uid.clone().or_else(|| about.name.clone());
        let key = (about.kind.clone(), uid, about.field_path.clone(), note.reason);
        if self.published.contains_key(&key) || !self.takes(now) {
            return false;
        }
        self.published.insert(key, now);
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

    pub(super) fn published(&mut self) {
        self.failure = None;
    }

    /// Stops publishing for a while. Returns the reason if it differs from the last reason.
    pub(super) fn refused(&mut self, why: String, now: Instant) -> Option<String> {
        self.resumes = Some(now + self.pause);
        self.failed(why)
    }

    /// Records a failure. Returns the reason if it differs from the last reason.
    pub(super) fn failed(&mut self, why: String) -> Option<String> {
        let is_new = self.failure.as_ref() != Some(&why);
        self.failure = Some(why.clone());
        is_new.then_some(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_secs(600);

    fn object(uid: &str) -> ObjectReference {
        ObjectReference { uid: Some(uid.into()), ..ObjectReference::default() }
    }

    fn note(reason: &'static str) -> Note {
        Note::warning(reason, "Look", "why".to_owned())
    }

    #[test]
    fn the_same_note_is_published_once_in_the_quiet_time() {
        let (mut limiter, now) = (Limiter::new(QUIET, QUIET), Instant::now());
        assert!(limiter.admits(&object("a"), &note("DriveFailed"), now));
        assert!(!limiter.admits(&object("a"), &note("DriveFailed"), now));
        assert!(limiter.admits(&object("b"), &note("DriveFailed"), now), "another object");
        assert!(limiter.admits(&object("a"), &note("ComputeFenced"), now), "another note");
        let part = ObjectReference { field_path: Some("status.drives{x}".into()), ..object("a") };
        assert!(limiter.admits(&part, &note("DriveFailed"), now), "another part");
        assert!(limiter.admits(&object("a"), &note("DriveFailed"), now + QUIET));
    }

    #[test]
    fn after_the_first_burst_of_notes_one_more_is_published_every_six_seconds() {
        let (mut limiter, now) = (Limiter::new(QUIET, QUIET), Instant::now());
        let mut count_published = |from: u32, now| {
            let all = (from..from + 100)
                .filter(|id| limiter.admits(&object(&id.to_string()), &note("X"), now));
            all.count()
        };
        assert_eq!(count_published(0, now), AT_ONCE as usize);
        assert_eq!(count_published(100, now), 0);
        assert_eq!(count_published(200, now + ONE_IN * 3), 3);
    }

    #[test]
    fn a_refused_event_is_logged_once_and_pauses_publishing() {
        let pause = Duration::from_secs(3600);
        let (mut limiter, now) = (Limiter::new(QUIET, pause), Instant::now());
        assert!(limiter.admits(&object("a"), &note("X"), now));
        assert_eq!(limiter.refused("forbidden".into(), now), Some("forbidden".to_owned()));
        assert!(!limiter.admits(&object("b"), &note("X"), now + QUIET));
        assert!(limiter.admits(&object("b"), &note("X"), now + pause));
        assert_eq!(limiter.refused("forbidden".into(), now + pause), None);
        limiter.published();
        assert!(limiter.failed("away".into()).is_some() && limiter.failed("away".into()).is_none());
    }
}
