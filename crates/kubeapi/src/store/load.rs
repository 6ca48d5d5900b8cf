//! Builds the state in memory from the rows of the store's file.
//!
//! If a row cannot be read, only its object is missing: the row stays in the file, and a log line of the server names
//! it.

use super::log::{Event, Verb};
use super::rows::{EventRow, Rows};
use super::{State, converted};
use crate::object::{Key, Object, Stored};
use crate::registry::{Registry, builtin, crd};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// A row of the objects' table that cannot be read.
#[derive(Debug, PartialEq)]
pub(super) struct Unread {
    pub(super) key: String,
    pub(super) json: Vec<u8>,
    pub(super) problem: String,
}

struct Row {
    key: Key,
    object: Object,
    json: Vec<u8>,
}

/// Builds the state in memory: first the registry of kinds, then the objects. If the stored definition of a kind cannot
/// be read, uses the definition in `crds`. Without a definition the API would list no objects of the kind, and agents
/// would unmount and delete the storage that these objects stand for.
pub(super) fn state(rows: Rows, history: usize, crds: &[Value]) -> (State, Vec<Unread>) {
    let mut state = State::new(history);
    state.revision = rows.revision;
    state.log.set_horizon(rows.horizon);
    let mut unread = Vec::new();
    let (kinds, objects): (Vec<Row>, Vec<Row>) = decoded(rows.objects, &mut unread)
        .into_iter()
        .partition(|row| &*row.key.resource == builtin::CRDS);
    let (registry, kinds) = registry(kinds, crds, &mut unread);
    state.registry = Arc::new(registry);
    for Row { key, object, json } in kinds.into_iter().chain(objects) {
        match restore(&state.registry, &key, object, None) {
            Ok(stored) => state.set(&key, Some(&stored)),
            Err(problem) => unread.push(Unread { key: key_text(&key), json, problem }),
        }
    }
    if !unread.is_empty() || !replay(&mut state, &rows.events) {
        forget_history(&mut state, history);
    }
    (state, unread)
}

fn decoded(objects: Vec<(String, Vec<u8>)>, unread: &mut Vec<Unread>) -> Vec<Row> {
    let mut rows = Vec::with_capacity(objects.len());
    for (key, json) in objects {
        match parse_key(&key).and_then(|key| Ok((key, parse_object(&json)?))) {
            Ok((key, object)) => rows.push(Row { key, object, json }),
            Err(problem) => unread.push(Unread { key, json, problem }),
        }
    }
    rows
}

/// Returns the kinds that the stored CRDs define, and the rows of those CRDs.
fn registry(rows: Vec<Row>, crds: &[Value], unread: &mut Vec<Unread>) -> (Registry, Vec<Row>) {
    let mut registry = Registry::builtin();
    let mut sound = Vec::with_capacity(rows.len());
    for row in rows {
        match compile(&row.object) {
            Ok(definition) => {
                registry.insert(definition);
                sound.push(row);
            }
            Err(problem) => {
                unread.push(Unread { key: key_text(&row.key), json: row.json, problem });
            }
        }
    }
    use_own_definitions(&mut registry, crds, unread);
    (registry, sound)
}

/// Returns the text that identifies a row: resource, namespace and name, separated by NULs. Resources and namespaces
/// contain no NUL, so every NUL after the second is part of the name.
pub(super) fn key_text(key: &Key) -> String {
    format!("{}\0{}\0{}", key.resource, key.namespace, key.name)
}

pub(super) fn parse_key(text: &str) -> Result<Key, String> {
    let mut parts = text.splitn(3, '\0');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(resource), Some(namespace), Some(name)) => Ok(Key {
            resource: resource.into(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }),
        _ => Err("its key does not name a kind, a namespace and a name".to_owned()),
    }
}

fn parse_object(json: &[u8]) -> Result<Object, String> {
    Object::from_json(json).map_err(|status| status.message)
}

fn compile(crd: &Object) -> Result<crate::registry::Definition, String> {
    crd::compile(crd)
        .map_err(|causes| causes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

/// Puts the program's own definition in the place of each stored definition that cannot be read.
fn use_own_definitions(registry: &mut Registry, crds: &[Value], unread: &[Unread]) {
    for row in unread {
        let Ok(key) = parse_key(&row.key) else { continue };
        let own = crds.iter().filter_map(|crd| Object::from_value(crd.clone()).ok());
        let own = own.filter(|crd| *key.resource == *builtin::CRDS && crd.name() == key.name);
        for definition in own.filter_map(|crd| compile(&crd).ok()) {
            registry.insert(definition);
        }
    }
}

fn restore(
    registry: &Registry,
    key: &Key,
    object: Object,
    revision: Option<u64>,
) -> Result<Arc<Stored>, String> {
    let own = object.meta.resource_version.as_deref().and_then(|revision| revision.parse().ok());
    let revision = own.or(revision).ok_or("the object has no resourceVersion")?;
    let definition = registry.get(&key.resource).ok_or("no CRD describes its kind")?;
    Ok(Arc::new(converted(definition, object, revision)))
}

/// Fills the log; returns false when a row of the log cannot be read.
fn replay(state: &mut State, rows: &[EventRow]) -> bool {
    let mut latest = HashMap::new();
    let horizon = state.log.horizon();
    for row in rows.iter().filter(|row| row.revision > horizon) {
        match event(state, &mut latest, row) {
            Ok(event) => state.log.push(Arc::new(event)),
            Err(problem) => {
                ::log::error!(revision = row.revision, problem; "a change in the store's log cannot be read");
                return false;
            }
        }
    }
    true
}

/// Begins an empty log at a revision that no client has seen: a client that resumes a watch then has to list again, and
/// so learns which objects are missing.
fn forget_history(state: &mut State, history: usize) {
    state.revision += 1;
    state.log = super::Log::new(history);
    state.log.set_horizon(state.revision);
}

/// Decodes an event of the log. If the event's object is also the current object, or the object of an earlier event,
/// both share one decoded object. If the event's kind was removed, no client can watch the kind, and the event only
/// keeps its place in the log.
fn event(
    state: &State,
    latest: &mut HashMap<Key, Arc<Stored>>,
    row: &EventRow,
) -> Result<Event, String> {
    let key = parse_key(&row.key)?;
    let decode = |json: &[u8]| -> Result<Arc<Stored>, String> {
        let object = parse_object(json)?;
        match state.registry.get(&key.resource) {
            Some(_) => restore(&state.registry, &key, object, Some(row.revision)),
            None => Ok(Arc::new(Stored::opaque(&object, row.revision))),
        }
    };
    let verb = match row.verb {
        0 => Verb::Added,
        1 => Verb::Modified,
        2 => Verb::Deleted,
        other => return Err(format!("the change has the unknown verb {other}")),
    };
    let previous = match (row.previous.is_empty(), latest.remove(&key)) {
        (true, _) => None,
        (false, Some(previous)) => Some(previous),
        (false, None) => Some(decode(&row.previous)?),
    };
    let object = match state.objects.get(&key).filter(|today| today.revision == row.revision) {
        Some(today) => Arc::clone(today),
        None => decode(&row.json)?,
    };
    if verb != Verb::Deleted {
        latest.insert(key.clone(), Arc::clone(&object));
    }
    Ok(Event { revision: row.revision, verb, object, previous, key })
}
