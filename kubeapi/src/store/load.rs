//! From the rows of the store's file to the state in memory.

use super::disk::{DiskError, EventRow, Rows};
use super::log::{Event, Verb};
use super::{State, shown};
use crate::object::{Key, Object, Stored};
use crate::registry::{Registry, builtin, crd};
use std::collections::HashMap;
use std::sync::Arc;

/// Builds the state, the kinds first.
pub(super) fn state(rows: &Rows, history: usize) -> Result<State, DiskError> {
    let mut state = State::new(history);
    state.revision = rows.revision;
    state.log.set_horizon(rows.horizon);
    let decode = |(key, json): &(String, Vec<u8>)| Ok((parse_key(key)?, parse_object(key, json)?));
    let objects = rows.objects.iter().map(decode).collect::<Result<Vec<_>, DiskError>>()?;
    state.registry = Arc::new(registry(&objects)?);
    for (key, object) in objects {
        let stored = restore(&state.registry, &key, object, None)?;
        state.set(&key, Some(&stored));
    }
    let mut latest = HashMap::new();
    for row in &rows.events {
        let event = event(&state, &mut latest, row)?;
        state.log.push(Arc::new(event));
    }
    Ok(state)
}

fn registry(objects: &[(Key, Object)]) -> Result<Registry, DiskError> {
    let mut registry = Registry::builtin();
    for (key, object) in objects.iter().filter(|(key, _)| &*key.resource == builtin::CRDS) {
        let definition = crd::compile(object).map_err(|causes| {
            let problem = causes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            damaged(&key.to_string(), &problem)
        })?;
        registry.insert(definition);
    }
    Ok(registry)
}

fn restore(
    registry: &Registry,
    key: &Key,
    object: Object,
    revision: Option<u64>,
) -> Result<Arc<Stored>, DiskError> {
    let own = object.meta.resource_version.as_deref().and_then(|revision| revision.parse().ok());
    let revision =
        own.or(revision).ok_or_else(|| damaged(&key.to_string(), "it has no resourceVersion"))?;
    let definition = registry
        .get(&key.resource)
        .ok_or_else(|| damaged(&key.to_string(), "no CRD describes its kind"))?;
    Ok(Arc::new(shown(definition, object, revision)))
}

/// An event of the log. What it shares with the event before it, or with the object of today, is not read twice. Its kind
/// may be gone by now; nobody can watch it then, and the event only keeps its place.
fn event(
    state: &State,
    latest: &mut HashMap<Key, Arc<Stored>>,
    row: &EventRow,
) -> Result<Event, DiskError> {
    let key = parse_key(&row.key)?;
    let decode = |json: &[u8]| -> Result<Arc<Stored>, DiskError> {
        let object = parse_object(&row.key, json)?;
        match state.registry.get(&key.resource) {
            Some(_) => restore(&state.registry, &key, object, Some(row.revision)),
            None => Ok(Arc::new(Stored::opaque(&object, row.revision))),
        }
    };
    let verb = match row.verb {
        0 => Verb::Added,
        1 => Verb::Modified,
        2 => Verb::Deleted,
        other => return Err(damaged(&key.to_string(), &format!("its event has verb {other}"))),
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

fn parse_object(key: &str, json: &[u8]) -> Result<Object, DiskError> {
    Object::from_json(json).map_err(|status| damaged(key, &status.message))
}

fn parse_key(text: &str) -> Result<Key, DiskError> {
    let mut parts = text.split('\0');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(resource), Some(namespace), Some(name), None) => Ok(Key {
            resource: resource.into(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }),
        _ => Err(damaged(text, "it is no key")),
    }
}

fn damaged(key: &str, problem: &str) -> DiskError {
    DiskError::Damaged { key: key.replace('\0', "/"), problem: problem.to_owned() }
}
