use super::{FieldValidation, Resource, Target, admit, json_patch, strategic, update};
use crate::object::Object;
use crate::status::{Cause, Status};
use crate::store::{Batch, Outcome};
use serde_json::{Map, Value};

/// A change to an object, by the media type that it came as.
#[derive(Debug, Clone)]
pub(crate) enum Patch {
    Json(Vec<Map<String, Value>>),
    Merge(Value),
    /// What kubectl sends for kinds that it knows; only built-in kinds take it.
    Strategic(Value),
    /// None; an object that is not there is told of first.
    Broken(Status),
}

impl Patch {
    /// # Errors
    /// 415 for a kind of patch that the resource does not take.
    pub(crate) fn check_type(media_type: &str, resource: &Resource) -> Result<(), Status> {
        match media_type {
            "application/json-patch+json" | "application/merge-patch+json" => Ok(()),
            "application/strategic-merge-patch+json" if !resource.definition.custom => Ok(()),
            "application/apply-patch+yaml" | "application/apply-patch+cbor" => {
                Err(Status::unsupported_media_type(
                    "this server does not implement server-side apply: send application/merge-patch+json, or use kubectl apply without --server-side",
                ))
            }
            _ if resource.definition.custom => Err(Status::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => {
                Err(Status::unsupported_media_type("415: Unsupported Media Type").with_no_details())
            }
        }
    }

    /// A patch of a type that has been checked.
    pub(crate) fn read(media_type: &str, body: Value) -> Self {
        let read = match media_type {
            "application/json-patch+json" => json_patch::read(body).map(Self::Json),
            "application/strategic-merge-patch+json" => Self::read_map(body).map(Self::Strategic),
            _ => Self::read_map(body).map(Self::Merge),
        };
        read.unwrap_or_else(Self::Broken)
    }

    fn read_map(body: Value) -> Result<Value, Status> {
        if body.is_object() {
            Ok(body)
        } else {
            Err(Status::bad_request(match body {
                Value::Null => "Invalid JSON Patch",
                _ => "error decoding patch: it must be a JSON object",
            }))
        }
    }

    fn apply(&self, mut object: Value) -> Result<Value, Status> {
        match self {
            Self::Json(operations) => json_patch::apply(&mut object, operations)?,
            Self::Merge(patch) => ::json_patch::merge(&mut object, patch),
            Self::Broken(status) => return Err(status.clone()),
            Self::Strategic(patch) => strategic::merge(&mut object, patch),
        }
        Ok(object)
    }
}

/// Patches an object, or its status.
///
/// # Errors
/// 404, 409 when the patch itself names another resourceVersion, 422 when it does not fit: as kube-apiserver.
pub(crate) fn patch(
    batch: &mut Batch<'_>,
    target: &Target,
    patch: &Patch,
    strictness: FieldValidation,
) -> Result<Outcome, Status> {
    let resource = target.resolve(batch.registry())?;
    let definition = &resource.definition;
    let name = target.name.as_deref().unwrap_or_default();
    let key = target.key(definition, name);
    let stored = batch.get(&key).ok_or_else(|| Status::not_found(definition.subject(name)))?;
    let mut current = stored.decode()?;
    resource.version().show(definition, &mut current);
    let mut patched = patch.apply(current.to_value())?;
    let shown = patched.clone();
    let has_none = patched.get("apiVersion").is_none_or(|version| version == "");
    let versionless = definition.custom && has_none && patched["kind"].is_string();
    if versionless {
        // That is noticed last.
        patched["apiVersion"] = resource.version().api_version().into();
    }
    if definition.custom && target.subresource.is_none() {
        check_type(&resource, &patched)?;
    }
    if !definition.custom && !matches!(patch, Patch::Strategic(_)) {
        check_version(&resource, name, &patched, strictness)?;
    }
    let incoming = admit::read(&resource, patched)
        .map_err(|status| in_patch(&resource, &shown, &status.message))?;
    let refusal = format!(
        "strict decoding error: {}",
        incoming
            .unknown
            .iter()
            .map(|field| format!("unknown field \"{field}\""))
            .collect::<Vec<_>>()
            .join(", ")
    );
    let (object, warnings) = incoming
        .accept(&resource, strictness)
        .map_err(|_| in_patch(&resource, &shown, &refusal))?;
    let finish = |batch: &mut Batch<'_>, object: Object, warnings| {
        check_identity(&object, &current)?;
        if versionless {
            let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
            return Err(Status::internal(why));
        }
        update::check_revision(definition, &stored, &object)?;
        update::replace(batch, &resource, target.subresource, &key, &stored, object, warnings)
    };
    finish(batch, object, warnings.clone()).map_err(|status| {
        if versionless && status.code == 500 { status } else { status.warning(&warnings) }
    })
}

/// A patch that makes another type of a custom resource fails in validation.
fn check_type(resource: &Resource, patched: &Value) -> Result<(), Status> {
    let text = |field: &str| patched[field].as_str().filter(|text| !text.is_empty());
    let (Some(kind), Some(version)) = (text("kind"), text("apiVersion")) else { return Ok(()) };
    let expected = [
        ("kind", kind, resource.definition.kind.clone()),
        ("apiVersion", version, resource.version().api_version()),
    ];
    let wrong = expected.into_iter().filter(|(_, found, expected)| found != expected);
    let causes: Vec<Cause> = wrong
        .map(|(field, found, expected)| {
            Cause::invalid(field, &Value::from(found), format!("must be {expected}"))
        })
        .collect();
    if causes.is_empty() {
        return Ok(());
    }
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let name = patched["metadata"]["name"].as_str().unwrap_or_default();
    Err(Status::invalid(group, kind, name, &causes))
}

/// What the patch made of the object is none; kube-apiserver does not say of which kind.
fn in_patch(resource: &Resource, patched: &Value, problem: &str) -> Status {
    let shown = Value::from(patched.to_string());
    let heads =
        [admit::unrecognized(resource, "").message, admit::unreadable(resource, "").message];
    let problem = heads.iter().find_map(|head| problem.strip_prefix(head)).unwrap_or(problem);
    Status::invalid("", "", "", &[Cause::invalid("patch", &shown, problem)])
}

/// What a built-in kind is without a version Go cannot tell: it finds nothing in it that it knows, not even a name.
fn check_version(
    resource: &Resource,
    name: &str,
    patched: &Value,
    strictness: FieldValidation,
) -> Result<(), Status> {
    let version = &patched["apiVersion"];
    if !version.is_null() && version != "" {
        // One that is no text is told when the object is read.
        return Ok(());
    }
    let members = patched.as_object().into_iter().flat_map(Map::keys);
    let unknown: Vec<String> = members
        .filter(|member| !matches!(member.as_str(), "apiVersion" | "kind"))
        .map(|member| format!("unknown field \"{member}\""))
        .collect();
    let refusal = format!("strict decoding error: {}", unknown.join(", "));
    let warnings =
        strictness.judge(resource, unknown).map_err(|_| in_patch(resource, patched, &refusal))?;
    Err(update::no_name(name).warning(&warnings))
}

fn check_identity(object: &Object, current: &Object) -> Result<(), Status> {
    let (wanted, here) = (object.namespace(), current.namespace());
    if wanted != here && !wanted.is_empty() && !here.is_empty() {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    update::check_name(object, current.name())
}
