use super::{FieldValidation, Target, admit, strategy};
use crate::admission::Operation;
use crate::events;
use crate::object::{Key, Object, now};
use crate::registry::{Definition, Resource, builtin};
use crate::schema::Part;
use crate::status::{Status, Subject};
use crate::store::{Batch, Outcome};
use serde_json::Value;
use std::sync::Arc;
use uuid::Uuid;

/// Largest length of a prefix that leaves room for the generated suffix of five characters (apiserver
/// `names.maxGeneratedNameLength`).
const GENERATED_PREFIX: usize = 63 - 5;
/// Number of tries for a free generated name.
const TRIES: usize = 8;

pub(crate) fn create(
    batch: &mut Batch<'_>,
    target: &Target,
    body: Value,
    strictness: FieldValidation,
) -> Result<Outcome, Status> {
    let resource = target.resolve(batch.registry())?;
    let definition = &resource.definition;
    let (mut object, warnings) = admit::read(&resource, body, strictness)?;
    target.check_namespace(&object)?;
    object.meta.namespace = target.namespace.clone();
    let revision =
        object.meta.resource_version.as_deref().and_then(|text| text.parse::<u64>().ok());
    set_server_metadata(batch, &resource, target, &mut object);
    let mut object = admit::complete(batch, &resource, object)?;
    if resource.version().has_status && definition.custom {
        object.body.remove("status");
    }
    strategy::complete(definition, &mut object, None)?;
    let subject = definition.subject(object.name());
    if definition.terminating {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(subject, why));
    }
    if let Some(namespace) = &target.namespace {
        check_namespace(batch, namespace, subject)?;
    }
    admit::check(&resource, Part::Whole, &object, None)?;
    admit::call_admission(batch, &resource, None, Operation::Create, (None, Some(&object)))?;
    object.canonicalise();
    store(batch, definition, target, object, revision, warnings)
}

fn store(
    batch: &mut Batch<'_>,
    definition: &Arc<Definition>,
    target: &Target,
    object: Object,
    revision: Option<u64>,
    warnings: Vec<String>,
) -> Result<Outcome, Status> {
    // kube-apiserver's storage layer refuses a new object with a resourceVersion; a dry run does not reach the storage
    // layer.
    if revision.is_some_and(|revision| revision > 0) && !batch.is_dry_run() {
        return Err(Status::new_object_has_revision());
    }
    let key = target.key(definition, object.name());
    if batch.get(&key).is_some() {
        let status = Status::already_exists(definition.subject(object.name()));
        let generated = object.meta.generate_name.is_some();
        return Err(if generated { status.no_unique_name() } else { status });
    }
    let stored = batch.put(definition, key, object)?;
    if &*definition.id == builtin::EVENTS {
        events::forget_old(batch, definition, stored.revision)?;
    }
    Ok(Outcome::Stored { code: 201, stored, warnings })
}

/// Sets the metadata that only the server may set, and a generated name if the client requests one.
fn set_server_metadata(
    batch: &Batch<'_>,
    resource: &Resource,
    target: &Target,
    object: &mut Object,
) {
    let meta = &mut object.meta;
    meta.resource_version = None;
    meta.uid = Some(Uuid::new_v4().to_string());
    meta.creation_timestamp = Some(now());
    meta.deletion_timestamp = None;
    meta.deletion_grace_period_seconds = None;
    if resource.definition.counts_generation {
        meta.generation = Some(1);
    }
    let prefix = meta.generate_name.clone().filter(|prefix| !prefix.is_empty());
    if meta.name.as_deref().is_none_or(str::is_empty)
        && let Some(prefix) = prefix
    {
        let free = |name: &String| batch.get(&target.key(&resource.definition, name)).is_none();
        // If all tries find only names that are taken, the object gets one more generated name. If this name is taken
        // too, the create is refused.
        let name = (0..TRIES).map(|_| generate_name(&prefix)).find(free);
        meta.name = Some(name.unwrap_or_else(|| generate_name(&prefix)));
    }
}

/// Returns the prefix and five random characters, without vowels so that they spell
/// no word (apimachinery `rand.String`).
fn generate_name(prefix: &str) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut seed = Uuid::new_v4().as_u128();
    let mut name: String = prefix.chars().take(GENERATED_PREFIX).collect();
    for _ in 0..5 {
        let index = usize::try_from(seed % ALPHABET.len() as u128).unwrap_or_default();
        name.extend(ALPHABET.get(index).copied().map(char::from));
        seed /= ALPHABET.len() as u128;
    }
    name
}

/// Answers 404 or 403 unless the object's namespace exists and is not being deleted.
fn check_namespace(batch: &Batch<'_>, namespace: &str, subject: Subject<'_>) -> Result<(), Status> {
    let of_namespace = Subject { group: "", plural: builtin::NAMESPACES, name: namespace };
    match batch.get(&Key::global(builtin::NAMESPACES, namespace)) {
        None => Err(Status::not_found(of_namespace)),
        Some(found) if found.deleting => Err(Status::namespace_terminating(subject, namespace)),
        Some(_) => Ok(()),
    }
}
