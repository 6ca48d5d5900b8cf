//! OpenAPI v2, which older kubectl reads, in the protobuf form that it asks for.

use super::{protobuf, v3};
use crate::body::Body;
use crate::registry::{Registry, discovery};
use crate::status::Status;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response};
use serde_json::{Map, Value, json};

/// The media type of the protobuf form. Clients ask for it with `@` in the place of the second last dot, which no media type
/// may contain, so that answers say it like this (kube-openapi `handler.mimePb`).
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// `/openapi/v2`
///
/// # Errors
/// 406 when neither JSON nor protobuf is accepted.
pub(crate) fn answer(registry: &Registry, headers: &HeaderMap) -> Result<Response<Body>, Status> {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("*/*");
    let document = document(registry);
    let (media_type, bytes) = if accept.contains("proto-openapi.spec.v2") {
        (PROTOBUF, protobuf::encode(&document))
    } else if accept.contains("application/json") || accept.contains("*/*") {
        ("application/json", document.to_string().into_bytes())
    } else {
        return Err(Status::not_acceptable());
    };
    let mut response = Response::new(Body::whole(bytes));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    Ok(response)
}

fn document(registry: &Registry) -> Value {
    let mut definitions = Map::new();
    let mut paths = Map::new();
    for (group, version) in discovery::group_versions(registry) {
        for (definition, version) in v3::served(registry, &group, &version) {
            let mut schema = v3::schema(definition, version, "#/definitions/");
            schema["properties"]["metadata"] =
                json!({"$ref": format!("#/definitions/{}", v3::META)});
            definitions.insert(v3::schema_name(definition, version), reduced(&schema));
            // kubectl before 1.27 looks here whether a dry run would be one.
            let parameters = ["dryRun", "fieldManager", "fieldValidation"]
                .map(|name| json!({"name": name, "in": "query", "type": "string"}));
            let patch = json!({
                "x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": v3::kind(definition, version),
                "parameters": parameters, "responses": {"200": {"description": "OK"}},
            });
            paths.insert(
                format!("{}/{{name}}", v3::root(definition, version)),
                json!({"patch": patch}),
            );
        }
    }
    let metadata = v3::metadata_schemas("/definitions").into_iter();
    definitions.extend(metadata.map(|(name, schema)| (name, reduced(&schema))));
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": paths, "definitions": definitions,
    })
}

/// A schema without what v2 cannot say: there, a node that is nullable, of two types or of unknown content has no type at
/// all, so that clients let everything pass (apiextensions `ToStructuralOpenAPIV2`).
fn reduced(schema: &Value) -> Value {
    let Value::Object(map) = schema else { return schema.clone() };
    let on = |keyword: &str| map.get(keyword) == Some(&Value::Bool(true));
    let open = on("nullable")
        || on("x-kubernetes-int-or-string")
        || on("x-kubernetes-preserve-unknown-fields");
    let mut kept = Map::new();
    for (keyword, value) in map {
        match keyword.as_str() {
            "$ref" | "description" | "format" | "x-kubernetes-group-version-kind" => {
                kept.insert(keyword.clone(), value.clone());
            }
            "type" | "required" if !open => {
                kept.insert(keyword.clone(), value.clone());
            }
            "items" if !open => {
                kept.insert(keyword.clone(), reduced(value));
            }
            "additionalProperties" if !open => {
                kept.insert(keyword.clone(), reduced(value));
            }
            "properties" if !open => {
                let children = value.as_object().into_iter().flatten();
                let children = children.map(|(name, child)| (name.clone(), reduced(child)));
                kept.insert(keyword.clone(), children.collect::<Map<_, _>>().into());
            }
            _ => {}
        }
    }
    kept.into()
}
