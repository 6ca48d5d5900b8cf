//! Tracks the objects of one target. Pure: the time is an argument.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::judge::{Verdict, judge};
use super::{Select, Target};
use crate::args::Condition;
use crate::failure::Failure;
use cli::Exit;

/// The objects of one target, each with its verdict.
#[derive(Debug)]
pub(super) struct Watched {
    target: Target,
    condition: Condition,
    objects: BTreeMap<String, Verdict>,
    /// The objects received so far of a list that is not complete; `None` between lists.
    incoming: Option<BTreeMap<String, Verdict>>,
    listed: bool,
    /// Number of objects that existed and are gone.
    gone: usize,
    fatal_since: Option<Instant>,
}

impl Watched {
    pub(super) fn new(target: Target, condition: Condition) -> Self {
        let objects = BTreeMap::new();
        Self {
            target,
            condition,
            objects,
            incoming: None,
            listed: false,
            gone: 0,
            fatal_since: None,
        }
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) fn is_listed(&self) -> bool {
        self.listed
    }

    /// Applies an event; returns lines about the changes.
    pub(super) fn apply_event(&mut self, event: Event<DynamicObject>, now: Instant) -> Vec<String> {
        let before = self.objects.clone();
        match event {
            Event::Apply(object) => self.apply(&object),
            Event::Delete(object) => {
                self.objects.remove(&key(&object));
            }
            Event::Init => self.incoming = Some(BTreeMap::new()),
            Event::InitApply(object) => {
                if !self.is_other(&object)
                    && let Some(incoming) = &mut self.incoming
                {
                    incoming.insert(key(&object), judge(&object, self.condition));
                }
            }
            Event::InitDone => {
                self.objects = self.incoming.take().unwrap_or_default();
                self.listed = true;
            }
        }
        self.gone += before.keys().filter(|name| !self.objects.contains_key(*name)).count();
        let fatal = self.objects.values().any(|verdict| matches!(verdict, Verdict::Fatal(_)));
        self.fatal_since = fatal.then(|| self.fatal_since.unwrap_or(now));
        self.changes_since(&before)
    }

    /// Returns whether the condition holds for all objects. A missing object counts as deleted and as unmounted, but
    /// not as mounted or ready.
    pub(super) fn is_met(&self) -> bool {
        let may_be_absent = matches!(self.condition, Condition::Deleted | Condition::Unmounted);
        self.listed
            && (may_be_absent || !self.objects.is_empty())
            && self.objects.values().all(|verdict| *verdict == Verdict::Met)
    }

    /// Returns the number of objects, including objects that are gone.
    pub(super) fn count(&self) -> usize {
        self.objects.len() + self.gone
    }

    /// Returns the time since which an object has a fatal error, and the failure to report.
    pub(super) fn fatal(&self) -> Option<(Instant, Failure)> {
        let since = self.fatal_since?;
        let (name, why) = self.objects.iter().find_map(|(name, verdict)| match verdict {
            Verdict::Fatal(why) => Some((name, why)),
            Verdict::Met | Verdict::Pending(_) => None,
        })?;
        let exit = match self.target.kind.resource.kind.as_str() {
            "ClientMount" => Exit::NodeFault,
            kind if kind.starts_with("Nnf") || kind == "Storage" => Exit::StorageFault,
            _ => Exit::Failed,
        };
        Some((since, Failure::new(exit, format!("{}: {why}", self.label(name)))))
    }

    /// Returns a line for each object that does not meet the condition, with the reason.
    pub(super) fn unmet(&self) -> Vec<String> {
        if !self.listed {
            return vec![format!("{}: the API has not listed it yet", self.subject())];
        }
        if self.objects.is_empty() && !self.is_met() {
            return vec![format!("{}: does not exist", self.subject())];
        }
        let reason = |(name, verdict): (&String, &Verdict)| match verdict {
            Verdict::Met => None,
            Verdict::Pending(why) | Verdict::Fatal(why) => {
                Some(format!("{}: {why}", self.label(name)))
            }
        };
        self.objects.iter().filter_map(reason).collect()
    }

    fn apply(&mut self, object: &DynamicObject) {
        if self.is_other(object) {
            self.objects.remove(&key(object));
        } else {
            self.objects.insert(key(object), judge(object, self.condition));
        }
    }

    /// Returns whether the object is not the target but a later object of the same name, with another uid.
    fn is_other(&self, object: &DynamicObject) -> bool {
        match &self.target.select {
            Select::Name { uid: Some(uid), .. } => object.metadata.uid.as_ref() != Some(uid),
            Select::Name { uid: None, .. } | Select::Labels(_) => false,
        }
    }

    fn changes_since(&self, before: &BTreeMap<String, Verdict>) -> Vec<String> {
        let changed =
            self.objects.iter().filter(|(name, verdict)| before.get(*name) != Some(verdict));
        let changed = changed.map(|(name, verdict)| match verdict {
            Verdict::Met => format!("{}: done", self.label(name)),
            Verdict::Pending(why) | Verdict::Fatal(why) => format!("{}: {why}", self.label(name)),
        });
        let removed = before.keys().filter(|name| !self.objects.contains_key(*name));
        changed.chain(removed.map(|name| format!("{}: gone", self.label(name)))).collect()
    }

    fn subject(&self) -> String {
        match &self.target.select {
            Select::Name { name, .. } => self.target.kind.label(name),
            Select::Labels(labels) => format!("{} with {labels}", self.target.kind.resource.plural),
        }
    }

    fn label(&self, name: &str) -> String {
        format!("{} {name}", self.target.kind.resource.kind.to_lowercase())
    }
}

/// Returns `NAMESPACE/NAME`, by which objects are tracked.
fn key(object: &DynamicObject) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "fixtures read better as literals")]
mod tests;
