use super::list::Selection;
use super::{Target, admit};
use crate::admission::Operation;
use crate::object::{FOREGROUND, Key, ORPHAN, Object, Stored};
use crate::registry::{Definition, builtin, crd};
use crate::status::{Cause, Status, Subject};
use crate::store::{Batch, Outcome};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Namespaces that cannot be deleted, because the server needs them.
const PERMANENT: [&str; 2] = ["default", "kube-system"];

/// Treatment of the dependents of a deleted object (`propagationPolicy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Background,
    Foreground,
    Orphan,
}

/// The fields of `metav1.DeleteOptions` that this server obeys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    /// `None` if the request has no policy. In this case the finalizers of the object decide.
    pub(crate) policy: Option<Policy>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// Reads the options from the body of a DELETE; `body` is `null` for a DELETE without a body.
    pub(crate) fn read(body: &Value) -> Result<Self, Status> {
        if body.is_null() {
            return Ok(Self::default());
        }
        let kind = body["kind"].as_str().unwrap_or_default();
        if !body.is_object() || !matches!(kind, "" | "DeleteOptions") {
            return Err(Status::bad_request("the body must be DeleteOptions"));
        }
        // Refuses a delete with a field of the wrong type: if the field were a precondition, ignoring it could delete
        // the wrong object.
        let read = meta::DeleteOptions::deserialize(body).map_err(|error| {
            Status::bad_request(format!("json: cannot unmarshal DeleteOptions: {error}"))
        })?;
        let mut causes = Vec::new();
        let policy = match (read.propagation_policy.as_deref(), read.orphan_dependents) {
            (Some(policy), orphan) => {
                if orphan.is_some() {
                    let why = "orphanDependents and deletionPropagation cannot be both set";
                    causes.push(Cause::invalid("propagationPolicy", &json!(policy), why));
                }
                Policy::parse(policy).map_err(|cause| causes.push(cause)).ok()
            }
            (None, Some(true)) => Some(Policy::Orphan),
            (None, Some(false)) => Some(Policy::Background),
            (None, None) => None,
        };
        let preconditions = read.preconditions.unwrap_or_default();
        let dry_run = read.dry_run.unwrap_or_default();
        if dry_run.iter().any(|value| value != "All") {
            causes.push(Cause::unsupported("dryRun", &json!(dry_run), &[json!("All")]));
        }
        if !causes.is_empty() {
            return Err(invalid_options(&causes));
        }
        Ok(Self {
            policy,
            uid: preconditions.uid,
            resource_version: preconditions.resource_version,
            dry_run: !dry_run.is_empty(),
        })
    }
}

impl Policy {
    pub(crate) fn parse(name: &str) -> Result<Self, Cause> {
        match name {
            "Background" => Ok(Self::Background),
            "Foreground" => Ok(Self::Foreground),
            "Orphan" => Ok(Self::Orphan),
            other => {
                let policies = ["Foreground", "Background", "Orphan", "nil"].map(Value::from);
                Err(Cause::unsupported("propagationPolicy", &json!(other), &policies))
            }
        }
    }
}

/// Returns the refusal of invalid delete options.
pub(crate) fn invalid_options(causes: &[Cause]) -> Status {
    Status::invalid("meta.k8s.io", "DeleteOptions", "", causes)
}

/// Deletes one object for a client. Answers 403 for a namespace that cannot be deleted, 404 for a missing object, and
/// 409 for a precondition that the object does not meet.
pub(crate) fn delete_one(
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
    check_preconditions(definition, name, &stored, options)?;
    if &*definition.id == builtin::NAMESPACES && PERMANENT.contains(&name) {
        return Err(Status::forbidden(subject, "this namespace may not be deleted"));
    }
    let old = stored.decode()?;
    admit::call_admission(batch, &resource, None, Operation::Delete, (Some(&old), None))?;
    Ok(match delete(batch, definition, &key, options.policy)? {
        Some(stored) => Outcome::Stored { code: 200, stored, warnings: Vec::new() },
        None => Outcome::Done(success(subject, &stored.uid)),
    })
}

fn check_preconditions(
    definition: &Definition,
    name: &str,
    stored: &Stored,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let revision = stored.revision.to_string();
    let conditions = [
        ("UID", &options.uid, &stored.uid),
        ("ResourceVersion", &options.resource_version, &revision),
    ];
    for (what, wanted, found) in conditions {
        if let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != found) {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found})"
            );
            return Err(Status::conflict(definition.subject(name), &why));
        }
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

/// Deletes all objects that a list with the same options would show.
pub(crate) fn delete_collection(
    batch: &mut Batch<'_>,
    target: &Target,
    selection: &Selection,
    options: &DeleteOptions,
) -> Result<Outcome, Status> {
    let resource = target.resolve(batch.registry())?;
    // No object has a value for an unknown field. Without this check, a selector `unknown!=x` would select, and so
    // delete, all objects.
    selection.fields.check(&resource)?;
    let definition = &resource.definition;
    let mut deleted = Vec::new();
    for key in batch.keys(&definition.id, target.namespace.as_deref()) {
        let Some(stored) = batch.get(&key).filter(|stored| selection.matches(stored)) else {
            continue;
        };
        check_preconditions(definition, &key.name, &stored, options)?;
        let old = stored.decode()?;
        admit::call_admission(batch, &resource, None, Operation::Delete, (Some(&old), None))?;
        delete(batch, definition, &key, options.policy)?;
        // The answer shows each object as it was before the deletion.
        deleted.push(stored);
    }
    Ok(Outcome::Deleted(deleted))
}

/// Deletes an object, and returns `None`. Only marks an object with finalizers as being deleted, and returns the marked
/// object. Another delete of a marked object changes nothing, unless it names another policy.
pub(crate) fn delete(
    batch: &mut Batch<'_>,
    definition: &Definition,
    key: &Key,
    policy: Option<Policy>,
) -> Result<Option<Arc<Stored>>, Status> {
    let Some(stored) = batch.get(key) else { return Ok(None) };
    let before = stored.decode()?;
    let mut object = before.clone();
    let is_namespace = &*definition.id == builtin::NAMESPACES;
    // Ignores the policy for Events: they own no objects.
    let policy = policy.filter(|_| &*definition.id != builtin::EVENTS);
    if let Some(policy) = policy {
        for (finalizer, its_policy) in [(FOREGROUND, Policy::Foreground), (ORPHAN, Policy::Orphan)]
        {
            if policy == its_policy {
                object.add_finalizer(finalizer);
            } else {
                object.remove_finalizer(finalizer);
            }
        }
    }
    if &*definition.id == builtin::CRDS && !object.is_deleting() {
        object.add_finalizer(crd::CLEANUP_FINALIZER);
    }
    if object.finalizers().is_empty() && !is_namespace {
        batch.remove(definition, key.clone())?;
        return Ok(None);
    }
    object.mark_deleting();
    if is_namespace {
        // A namespace gets a grace period only once its content is gone: from then on it is deleted like any other
        // object with finalizers.
        let emptied = before.is_deleting() && is_emptied(&before);
        object.meta.deletion_grace_period_seconds = emptied.then_some(0);
    }
    if is_namespace && let Some(status) = object.body.get_mut("status") {
        status["phase"] = json!("Terminating");
    }
    if object.same_content(&before) {
        return Ok(Some(stored));
    }
    batch.put(definition, key.clone(), object).map(Some)
}

fn is_emptied(namespace: &Object) -> bool {
    let finalizers = namespace.body.get("spec").and_then(|spec| spec["finalizers"].as_array());
    finalizers.is_none_or(Vec::is_empty)
}

/// Stores an object, or removes it if it is being deleted and this write drops its last finalizers.
pub(crate) fn store_or_remove(
    batch: &mut Batch<'_>,
    definition: &Definition,
    key: &Key,
    object: Object,
) -> Result<Arc<Stored>, Status> {
    // A namespace is not removed here: garbage collection removes it once its content is gone.
    let ends = object.is_deleting()
        && object.finalizers().is_empty()
        && &*definition.id != builtin::NAMESPACES;
    if ends {
        batch.remove_with_last_state(definition, key.clone(), object)
    } else {
        batch.put(definition, key.clone(), object)
    }
}
