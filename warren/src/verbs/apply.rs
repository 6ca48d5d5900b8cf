//! Creates objects that do not exist, and merges files into existing objects (RFC 7396): a field that the file leaves
//! out keeps its value.

use std::time::Duration;

use futures::TryStreamExt;
use http::header::CONTENT_TYPE;
use kube::api::{Api, DynamicObject, Patch, PatchParams, ValidationDirective};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::args::Apply;
use crate::client::ServerArgs;
use crate::failure::{self, Failure};
use crate::kinds::{Kind, Kinds};
use crate::manifest::{self, Document};
use cli::Exit;
use cli::Output;

/// Longest time that the coordinator may take to create all namespaces of a new SystemConfiguration.
const NAMESPACE_DEADLINE: Duration = Duration::from_secs(10);

/// Metadata fields that only the server sets.
const SERVER_FIELDS: [&str; 5] =
    ["uid", "creationTimestamp", "deletionTimestamp", "generation", "managedFields"];

/// The result for one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Created,
    Configured,
    Unchanged,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        }
    }
}

pub(crate) async fn run(
    server: &ServerArgs,
    args: &Apply,
    output: Output,
) -> Result<Exit, Failure> {
    let documents = manifest::read(&args.files.files)
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let client = server.client(output).await?;
    let mut kinds = Kinds::discover(&client).await?;
    let mut results = Vec::new();
    let mut exit = Exit::Done;
    // Time until which the coordinator may still be creating namespaces.
    let mut namespaces_deadline = None;
    for document in &documents {
        let applied = apply(&client, &mut kinds, document, args, namespaces_deadline).await;
        match applied {
            Ok((kind, outcome)) => {
                if kind.resource.kind == "SystemConfiguration" && !args.dry_run {
                    namespaces_deadline = Some(Instant::now() + NAMESPACE_DEADLINE);
                }
                let label = kind.label(&document.object.name_any());
                results.push(json!({"object": label, "namespace": namespace(document, &kind, args), "result": outcome.word()}));
                if !output.is_json() {
                    let dry = if args.dry_run { " (dry run)" } else { "" };
                    output.line(&format!("{label} {}{dry}", outcome.word()))?;
                }
            }
            Err(failure) => {
                results.push(json!({"object": document.place, "error": failure.json()}));
                output.failure(&failure);
                // Exits with the status of the first failure, which may have caused the later failures.
                exit = if exit == Exit::Done { failure.exit } else { exit };
            }
        }
    }
    if output.is_json() {
        output.json(&results)?;
    }
    Ok(exit)
}

async fn apply(
    client: &Client,
    kinds: &mut Kinds,
    document: &Document,
    args: &Apply,
    namespaces_deadline: Option<Instant>,
) -> Result<(Kind, Outcome), Failure> {
    let kind = discover_kind(client, kinds, document).await?;
    let api = kind.api(client, &namespace(document, &kind, args));
    let name = document.object.name_any();
    let failed = |verb: &str, error: &kube::Error| {
        failure::api(format!("{}: {verb} {}", document.place, kind.label(&name)), error)
    };
    let existing = api.get_opt(&name).await.map_err(|error| failed("look up", &error))?;
    if let Some(existing) = existing {
        let stored = merge(&api, document, args).await.map_err(|error| failed("change", &error))?;
        let same = stored.resource_version() == existing.resource_version();
        return Ok((kind, if same { Outcome::Unchanged } else { Outcome::Configured }));
    }
    let mut created = create(&api, document, args).await;
    if let Some(deadline) = namespaces_deadline
        && created.as_ref().is_err_and(is_missing_namespace)
    {
        wait_for_namespace(client, &namespace(document, &kind, args), deadline).await;
        created = create(&api, document, args).await;
    }
    match created {
        Ok(()) => Ok((kind, Outcome::Created)),
        Err(error) => {
            let failure = failed("create", &error);
            Err(if is_missing_namespace(&error) && args.dry_run {
                failure.remedy("a dry run creates no namespaces: create them first; a SystemConfiguration creates those of its nodes")
            } else if is_missing_namespace(&error) {
                failure.remedy("the coordinator creates the namespace of each node in the SystemConfiguration; create others with `warren apply`")
            } else {
                failure
            })
        }
    }
}

/// Returns the kind of a document. If the kind is unknown, discovers the kinds again: an earlier document may have
/// been the CRD of this kind.
async fn discover_kind(
    client: &Client,
    kinds: &mut Kinds,
    document: &Document,
) -> Result<Kind, Failure> {
    let types = document.object.types.clone().unwrap_or_default();
    if kinds.find_by_type(&types.api_version, &types.kind).is_none() {
        *kinds = Kinds::discover(client).await?;
    }
    kinds.require_type(&document.place, &types.api_version, &types.kind).cloned()
}

fn namespace(document: &Document, kind: &Kind, args: &Apply) -> String {
    if !kind.namespaced {
        return String::new();
    }
    document.object.namespace().unwrap_or_else(|| args.files.namespace.clone())
}

async fn merge(
    api: &Api<DynamicObject>,
    document: &Document,
    args: &Apply,
) -> kube::Result<DynamicObject> {
    let parameters = PatchParams {
        dry_run: args.dry_run,
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    api.patch(
        &document.object.name_any(),
        &parameters,
        &Patch::Merge(without_server_fields(&document.value, false)),
    )
    .await
}

/// Creates an object with strict field validation, which kube's own `create` cannot request.
async fn create(api: &Api<DynamicObject>, document: &Document, args: &Apply) -> kube::Result<()> {
    let dry = if args.dry_run { "&dryRun=All" } else { "" };
    let request =
        http::Request::post(format!("{}?fieldValidation=Strict{dry}", api.resource_url()))
            .header(CONTENT_TYPE, "application/json")
            .body(without_server_fields(&document.value, true).to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
    api.clone().into_client().request_text(request).await.map(drop)
}

/// Returns the document without the fields that only the server sets. For a change, keeps a resourceVersion of the
/// file: the API then changes only that version of the object.
fn without_server_fields(document: &Value, creating: bool) -> Value {
    let mut value = document.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        let version = creating.then_some("resourceVersion");
        for field in SERVER_FIELDS.iter().copied().chain(version) {
            metadata.remove(field);
        }
    }
    value
}

fn is_missing_namespace(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && status.message.contains("namespaces"))
}

/// Returns once the namespace exists, or at the deadline.
async fn wait_for_namespace(client: &Client, name: &str, deadline: Instant) {
    let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut namespaces = std::pin::pin!(watcher(api, only).applied_objects());
    let _ = timeout_at(deadline, namespaces.try_next()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apply_leaves_out_fields_that_only_the_server_sets() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "generation": 2, "creationTimestamp": null,
                         "labels": {"x": "y"}, "lables": {}},
            "status": {"ready": true}, "data": {"k": "v"}
        });
        let created = without_server_fields(&object, true);
        assert_eq!(created["metadata"], json!({"name": "a", "labels": {"x": "y"}, "lables": {}}));
        assert_eq!(created["data"]["k"], "v");
        assert!(created.get("status").is_none());
        assert_eq!(without_server_fields(&object, false)["metadata"]["resourceVersion"], "7");
    }
}
