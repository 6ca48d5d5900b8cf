use super::Target;
use super::list::Selection;
use crate::object::{Key, Object, Stored};
use crate::registry::{Definition, builtin};
use crate::status::{Status, Subject};
use crate::store::{Batch, Outcome};
use serde_json::{Value, json};
use std::sync::Arc;

/// Finalizer of an owner that waits for its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an owner whose dependents are to be let go.
pub(crate) const ORPHAN: &str = "orphan";

/// Namespaces that the server itself lives on.
const PERMANENT: [&str; 2] = ["default", "kube-system"];

/// What becomes of the dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Policy {
    #[default]
    Background,
    Foreground,
    Orphan,
}

/// `metav1.DeleteOptions`, as far as it means something here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub(crate) policy: Policy,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// Reads the body of a DELETE; `null` when there is none.
    ///
    /// # Errors
    /// 400 for a body that is no DeleteOptions, 422 for a policy that does not exist.
    pub(crate) fn read(body: &Value) -> Result<Self, Status> {
        let mut options = Self::default();
        match body {
            Value::Null => return Ok(options),
            Value::Object(_) => {}
            _ => {
                return Err(Status::bad_request(
                    "the body of a DELETE must be a DeleteOptions object",
                ));
            }
        }
        match body["kind"].as_str() {
            None | Some("DeleteOptions") => {}
            Some(other) => {
                return Err(Status::bad_request(format!(
                    "the body of a DELETE must be DeleteOptions, not {other}"
                )));
            }
        }
        if let Some(policy) = body["propagationPolicy"].as_str() {
            options.policy = Policy::parse(policy)?;
        } else if body["orphanDependents"] == true {
            options.policy = Policy::Orphan;
        }
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        options.uid = text("/preconditions/uid");
        options.resource_version = text("/preconditions/resourceVersion");
        options.dry_run = body["dryRun"]
            .as_array()
            .is_some_and(|values| values.iter().any(|value| value == "All"));
        Ok(options)
    }
}

impl Policy {
    pub(crate) fn parse(name: &str) -> Result<Self, Status> {
        match name {
            "Background" => Ok(Self::Background),
            "Foreground" => Ok(Self::Foreground),
            "Orphan" => Ok(Self::Orphan),
            other => Err(Status::unprocessable(format!(
                "propagationPolicy: Unsupported value: {other:?}: supported values: \"Background\", \"Foreground\", \"Orphan\""
            ))),
        }
    }
}

/// Deletes one object for a client.
///
/// # Errors
/// 403 for a namespace that must stay, 404, 409 for preconditions that do not hold.
pub(crate) fn one(
    batch: &mut Batch<'_>,
    target: &Target,
    options: &DeleteOptions,
) -> Result<Outcome, Status> {
    let resource = target.resolve(batch.registry())?;
    let definition = &resource.definition;
    let name = target.name.as_deref().unwrap_or_default();
    let key = target.key(definition, name);
    let subject = definition.subject(name);
    let stored = batch.get(&key).ok_or_else(|| Status::not_found(subject))?;
    check_preconditions(subject, &stored, options)?;
    if &*definition.id == builtin::NAMESPACES && PERMANENT.contains(&name) {
        return Err(Status::forbidden(subject, "this namespace may not be deleted"));
    }
    match delete(batch, definition, &key, options.policy)? {
        Deletion::Pending(stored) => {
            Ok(Outcome::Stored { code: 200, stored, warnings: Vec::new() })
        }
        Deletion::Gone => Ok(Outcome::Done(success(subject, &stored.uid))),
    }
}

fn check_preconditions(
    subject: Subject<'_>,
    stored: &Stored,
    options: &DeleteOptions,
) -> Result<(), Status> {
    if let Some(uid) = options.uid.as_ref().filter(|uid| **uid != stored.uid) {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            stored.uid
        );
        return Err(Status::conflict(subject, &why));
    }
    let revision = stored.revision.to_string();
    if let Some(wanted) = options.resource_version.as_ref().filter(|wanted| **wanted != revision) {
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {revision}"
        );
        return Err(Status::conflict(subject, &why));
    }
    Ok(())
}

fn success(subject: Subject<'_>, uid: &str) -> Value {
    let mut details = json!({ "name": subject.name, "kind": subject.plural, "uid": uid });
    if !subject.group.is_empty() {
        details["group"] = json!(subject.group);
    }
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}

/// Deletes every object that a list would show.
///
/// # Errors
/// As for one object.
pub(crate) fn collection(
    batch: &mut Batch<'_>,
    target: &Target,
    selection: &Selection,
    options: &DeleteOptions,
) -> Result<Outcome, Status> {
    let resource = target.resolve(batch.registry())?;
    let definition = &resource.definition;
    let mut deleted = Vec::new();
    for key in batch.keys(&definition.id, target.namespace.as_deref()) {
        let Some(stored) = batch.get(&key).filter(|stored| selection.matches(stored)) else {
            continue;
        };
        check_preconditions(definition.subject(&key.name), &stored, options)?;
        if &*definition.id == builtin::NAMESPACES && PERMANENT.contains(&key.name.as_str()) {
            return Err(Status::forbidden(
                definition.subject(&key.name),
                "this namespace may not be deleted",
            ));
        }
        match delete(batch, definition, &key, options.policy)? {
            Deletion::Pending(marked) => deleted.push(marked),
            Deletion::Gone => deleted.push(stored),
        }
    }
    Ok(Outcome::Deleted(deleted))
}

/// How far a deletion came.
#[derive(Debug)]
pub(crate) enum Deletion {
    Gone,
    /// Something holds the object: it is marked, and goes when its last finalizer does.
    Pending(Arc<Stored>),
}

/// Deletes an object, or marks it when finalizers hold it. Deleting a marked object again changes nothing.
pub(crate) fn delete(
    batch: &mut Batch<'_>,
    definition: &Definition,
    key: &Key,
    policy: Policy,
) -> Result<Deletion, Status> {
    let Some(stored) = batch.get(key) else { return Ok(Deletion::Gone) };
    let before = stored.decode()?;
    let mut object = before.clone();
    match policy {
        Policy::Background => {}
        Policy::Foreground => object.add_finalizer(FOREGROUND),
        Policy::Orphan => object.add_finalizer(ORPHAN),
    }
    let is_namespace = &*definition.id == builtin::NAMESPACES;
    if object.finalizers().is_empty() && !is_namespace {
        batch.remove(definition, key.clone())?;
        return Ok(Deletion::Gone);
    }
    object.mark_deleting();
    if is_namespace && let Some(status) = object.body.get_mut("status") {
        status["phase"] = json!("Terminating");
    }
    if object.same_content(&before) {
        return Ok(Deletion::Pending(stored));
    }
    batch.put(definition, key.clone(), object).map(Deletion::Pending)
}

/// Stores an object, or ends it when it was only waiting for the finalizers that this write removed.
pub(crate) fn store_or_end(
    batch: &mut Batch<'_>,
    definition: &Definition,
    key: &Key,
    object: Object,
) -> Result<Arc<Stored>, Status> {
    // A namespace waits for its content as well; garbage collection knows when that is gone.
    let ends = object.is_deleting()
        && object.finalizers().is_empty()
        && &*definition.id != builtin::NAMESPACES;
    if ends {
        batch.end(definition, key.clone(), object)
    } else {
        batch.put(definition, key.clone(), object)
    }
}
