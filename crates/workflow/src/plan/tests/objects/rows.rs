//! The statements of a row: planned changes, the status of a workflow, and the edits that wake it.

use controller::Event;
use serde_json::Value;

use super::{At, Objects, parse_at, workflow_key};
use crate::{
    plan::{Plan, plan_key, tests::describe::describe},
    progress::Outcome,
    world::{ForEachKind, Key, Scope, Wake, WatchedKind, World},
};

impl Objects {
    /// Fails unless the engine plans exactly these changes.
    #[track_caller]
    pub(crate) fn plans(self, expected: &[&str]) -> Self {
        let lines = self.lines();
        assert!(lines.iter().eq(expected), "planned: {lines:#?}\nexpected: {expected:#?}");
        self
    }

    /// Fails unless the planned changes write this status of a workflow; says nothing about other changes.
    #[track_caller]
    pub(crate) fn reports(self, expected: &str) -> Self {
        let changes = self.changes();
        let mut own = changes.iter().filter(|change| change.target().resource.kind == "Workflow");
        let line = own.next().map(|change| describe(change, &self.all)).unwrap_or_default();
        assert_eq!(line, expected);
        self
    }

    /// Fails unless all states up to the present one are complete, and nothing is left to do.
    #[track_caller]
    pub(crate) fn completes(self) -> Self {
        let status = &self.get("Workflow default/w")["status"];
        assert!(status["ready"] == true && status["status"] == "Completed", "{status:#}");
        self.plans(&[])
    }

    /// Edits an object while the engine runs, and fails if this does not wake workflow `w`.
    #[track_caller]
    pub(crate) fn then(self, at: &str, patch: &Value) -> Self {
        let before = self.clone();
        let after = self.edit(at, patch);
        after.assert_woken(&before, at);
        after
    }

    /// Removes an object while the engine runs, and fails if this does not wake workflow `w`.
    #[track_caller]
    pub(crate) fn then_without(self, at: &str) -> Self {
        let before = self.clone();
        let after = self.without(at);
        after.assert_woken(&before, at);
        after
    }

    /// Creates an object while the engine runs, and fails if this does not wake workflow `w`.
    #[track_caller]
    pub(crate) fn then_put(self, at: &str, object: Value) -> Self {
        let before = self.clone();
        let after = self.put(at, object);
        after.assert_woken(&before, at);
        after
    }

    #[track_caller]
    fn assert_woken(&self, before: &Self, at: &str) {
        self.assert_key_woken(&workflow_key(), before, at);
    }

    /// Edits an object while the engine runs, and fails if this does not wake a key.
    #[track_caller]
    pub(crate) fn then_wakes(self, key: &Key, at: &str, patch: &Value) -> Self {
        let before = self.clone();
        let after = self.edit(at, patch);
        after.assert_key_woken(key, &before, at);
        after
    }

    #[track_caller]
    fn assert_key_woken(&self, woken: &Key, before: &Self, at: &str) {
        let mut world = before.world();
        let Plan { outcomes, awaited, .. } = plan_key(&world, woken, before.now());
        let at = parse_at(at);
        let mut event =
            Delivery { before, after: self, at: &at, world: &mut world, wakes: Vec::new() };
        self.settings.kinds(&mut event);
        let is_failing =
            |outcome: &Outcome| matches!(outcome, Outcome::Failed(_) | Outcome::Queued(_));
        let wakes = event.wakes.iter().any(|wake| match wake {
            Wake::Key(key) => key == woken,
            Wake::Waiting => outcomes.iter().any(|outcome| *outcome != Outcome::Done),
            Wake::Failing => outcomes.iter().any(is_failing),
            Wake::Awaiting(node) => awaited.contains(node),
        });
        assert!(wakes, "{at:?} wakes only {:?}; the outcomes are {outcomes:?}", event.wakes);
    }
}

/// Delivers one changed or removed object to a running engine.
struct Delivery<'a> {
    before: &'a Objects,
    after: &'a Objects,
    at: &'a At,
    world: &'a mut World,
    wakes: Vec<Wake>,
}

impl ForEachKind for Delivery<'_> {
    fn kind<K: WatchedKind>(&mut self, _: Scope) {
        if self.at.0 != K::kind(&()) {
            return;
        }
        self.wakes = self.world.take::<K>(match self.after.all.get(self.at) {
            Some(object) => Event::Applied(self.after.item(self.at, object)),
            None => Event::Deleted(self.before.item(self.at, &self.before.all[self.at])),
        });
    }
}
