//! The kinds that the server serves, with their names, versions and schemas.

pub(crate) mod builtin;
pub(crate) mod column;
pub(crate) mod crd;
mod definition;
pub(crate) mod discovery;
pub(crate) mod event_table;

pub(crate) use column::Column;
pub(crate) use definition::{Definition, NameRule, Selectable, Version};

use std::collections::BTreeMap;
use std::sync::Arc;

/// All served kinds; replaced as a whole when a CRD changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry {
    by_id: BTreeMap<Arc<str>, Arc<Definition>>,
}

/// A kind in the version that a request names.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) definition: Arc<Definition>,
    index: usize,
}

impl Resource {
    pub(crate) fn version(&self) -> &Version {
        &self.definition.versions[self.index]
    }
}

impl Registry {
    /// The kinds that exist without any CRD.
    pub(crate) fn builtin() -> Self {
        let mut registry = Self::default();
        for definition in builtin::definitions() {
            registry.insert(definition);
        }
        registry
    }

    pub(crate) fn insert(&mut self, definition: Definition) {
        self.by_id.insert(Arc::clone(&definition.id), Arc::new(definition));
    }

    pub(crate) fn remove(&mut self, id: &str) {
        self.by_id.remove(id);
    }

    /// Returns the kind with this id: `plural.group`, which is the name of its CRD.
    pub(crate) fn get(&self, id: &str) -> Option<&Arc<Definition>> {
        self.by_id.get(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.by_id.values()
    }

    /// Finds the kind that a request path names.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Resource> {
        self.iter().filter(|definition| definition.plural == plural).find_map(|definition| {
            let serves =
                |candidate: &Version| candidate.group == group && candidate.name == version;
            let index = definition.versions.iter().position(serves)?;
            Some(Resource { definition: Arc::clone(definition), index })
        })
    }

    /// Finds the kind that an owner reference names, by group and kind.
    pub(crate) fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<Definition>> {
        self.iter().find(|definition| {
            definition.kind == kind
                && definition.versions.iter().any(|version| version.group == group)
        })
    }
}
