use super::Column;
use crate::names;
use crate::object::{Object, Stored};
use crate::schema::Schema;
use crate::status::{Cause, Status, Subject};
use hyper::body::Bytes;
use serde_json::{Map, Value};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Definition {
    /// `plural.group`, or `plural` in the core group.
    pub(crate) id: Arc<str>,
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// Served versions, the preferred one first.
    pub(crate) versions: Vec<Version>,
    /// `group/version` under which objects are stored.
    pub(crate) storage_version: String,
    /// True for a kind that a CRD defines; false for a built-in kind.
    pub(crate) custom: bool,
    /// True if `metadata.generation` counts changes of the spec.
    pub(crate) counts_generation: bool,
    /// True if PUT may leave the resourceVersion out.
    pub(crate) unconditional_update: bool,
    /// True while the CRD is being deleted: clients cannot create objects of this kind.
    pub(crate) terminating: bool,
    pub(crate) name_rule: NameRule,
}

#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) schema: Schema,
    /// The schema as the CRD's author wrote it, for OpenAPI documents.
    pub(crate) openapi: Value,
    pub(crate) has_status: bool,
    pub(crate) columns: Vec<Column>,
    pub(crate) selectable: Vec<Selectable>,
    /// Fields with another name in this version than in storage: (here, stored).
    pub(crate) renames: &'static [(&'static str, &'static str)],
    /// Warning for clients that use this deprecated version.
    pub(crate) deprecation: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selectable {
    /// Name of the field in a selector.
    pub(crate) name: String,
    /// Path of the field in the stored object.
    pub(crate) path: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    Label,
    Subdomain,
    /// Any text that can be a segment of a URL path.
    Segment,
}

impl Definition {
    pub(crate) fn check_name(&self, name: &str) -> Option<&'static str> {
        match self.name_rule {
            NameRule::Label => names::dns_label(name),
            NameRule::Subdomain => names::dns_subdomain(name),
            NameRule::Segment => names::path_segment(name),
        }
    }

    pub(crate) fn subject<'a>(&'a self, name: &'a str) -> Subject<'a> {
        Subject { group: &self.group, plural: &self.plural, name }
    }

    pub(crate) fn invalid(&self, name: &str, causes: &[Cause]) -> Status {
        Status::invalid(&self.group, &self.kind, name, causes)
    }

    /// Returns the version in which objects are stored; `None` if the server does not serve that version.
    pub(crate) fn storage(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.api_version() == self.storage_version)
    }

    /// Encodes an object of this kind for the store.
    pub(crate) fn stored(&self, object: &Object, revision: u64) -> Stored {
        Stored::new(object, self.selectable_values(object), revision)
    }

    /// Returns the values of all fields that a field selector may name.
    fn selectable_values(&self, object: &Object) -> Vec<(String, String)> {
        let mut values = vec![("metadata.name".to_owned(), object.name().to_owned())];
        if self.namespaced {
            values.push(("metadata.namespace".to_owned(), object.namespace().to_owned()));
        }
        for selectable in self.versions.iter().flat_map(|version| &version.selectable) {
            if values.iter().any(|(name, _)| *name == selectable.name) {
                continue;
            }
            if let Some(value) = selectable.value(&object.body) {
                values.push((selectable.name.clone(), value));
            }
        }
        values
    }
}

impl Version {
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.group, self.name)
        }
    }

    /// Converts an object of this version to the stored form.
    pub(crate) fn to_storage(&self, definition: &Definition, object: &mut Object) {
        for (here, stored) in self.renames {
            if let Some(value) = object.body.remove(*here) {
                object.body.insert((*stored).to_owned(), value);
            }
        }
        object.api_version.clone_from(&definition.storage_version);
    }

    /// Converts a stored object to this version.
    pub(crate) fn show(&self, definition: &Definition, object: &mut Object) {
        if object.api_version == self.api_version() {
            return;
        }
        for (here, stored) in self.renames {
            if let Some(value) = object.body.remove(*stored) {
                object.body.insert((*here).to_owned(), value);
            }
        }
        object.api_version = self.api_version();
        if definition.custom {
            self.schema.prune(&mut object.body, &mut Vec::new());
            self.schema.fill(&mut object.body);
        }
    }

    /// Returns the JSON of a stored object in this version; usually the stored bytes themselves.
    pub(crate) fn present(
        &self,
        definition: &Definition,
        stored: &Stored,
    ) -> Result<Bytes, Status> {
        if self.api_version() == definition.storage_version {
            return Ok(stored.json.clone());
        }
        let mut object = stored.decode()?;
        self.show(definition, &mut object);
        Ok(object.to_json())
    }

    /// Returns the part of an object that schemas describe: its type, its body, and of its metadata only the names.
    pub(crate) fn view(object: &Object) -> Value {
        let mut body = object.body.clone();
        body.insert("apiVersion".to_owned(), object.api_version.clone().into());
        body.insert("kind".to_owned(), object.kind.clone().into());
        let mut meta = Map::new();
        meta.insert("name".to_owned(), object.name().into());
        if let Some(prefix) = &object.meta.generate_name {
            meta.insert("generateName".to_owned(), prefix.as_str().into());
        }
        body.insert("metadata".to_owned(), meta.into());
        body.into()
    }
}

impl Selectable {
    /// Parses the simple path that CRDs use (`.spec.node`).
    pub(crate) fn from_json_path(path: &str) -> Option<Self> {
        let name = path.strip_prefix('.')?;
        let path: Vec<String> = name.split('.').map(str::to_owned).collect();
        let plain = |part: &String| {
            !part.is_empty()
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        };
        path.iter().all(plain).then(|| Self { name: name.to_owned(), path })
    }

    fn value(&self, body: &Map<String, Value>) -> Option<String> {
        let (first, rest) = self.path.split_first()?;
        let value = rest.iter().try_fold(body.get(first)?, |value, part| value.get(part))?;
        match value {
            Value::String(text) => Some(text.clone()),
            Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}
