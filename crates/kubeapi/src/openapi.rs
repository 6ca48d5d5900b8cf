//! OpenAPI v3: an index, and one document for each group and version. kubectl reads the fields of a kind from these
//! documents (`kubectl explain`), and learns from them that the server validates fields itself.

use crate::registry::{Definition, Registry, Version, discovery};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::Schema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Returns the document of `/openapi/v3`.
pub(crate) fn index(registry: &Registry) -> Value {
    let paths = discovery::group_versions(registry).into_iter().map(|(group, version)| {
        let path = if group.is_empty() {
            format!("api/{version}")
        } else {
            format!("apis/{group}/{version}")
        };
        let url = json!({"serverRelativeURL": format!("/openapi/v3/{path}")});
        (path, url)
    });
    json!({"paths": paths.collect::<Map<_, _>>()})
}

/// Returns the document of one group and version; `None` when the server does not serve that version.
pub(crate) fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for (definition, version) in served(registry, group, version) {
        let name = schema_name(definition, version);
        let reference = json!({"$ref": format!("#/components/schemas/{name}")});
        schemas.insert(name, schema(definition, version, "#/components/schemas/"));
        let root = root(definition, version);
        paths.insert(root.clone(), json!({"get": operation(definition, version, "list"), "post": operation(definition, version, "post")}));
        let mut item = json!({});
        for verb in ["get", "put", "patch", "delete"] {
            item[verb] = operation(definition, version, verb);
            item[verb]["responses"]["200"]["content"]["application/json"]["schema"] =
                reference.clone();
        }
        paths.insert(format!("{root}/{{name}}"), item);
    }
    if schemas.is_empty() {
        return None;
    }
    schemas.extend(metadata_schemas("/components/schemas"));
    Some(json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": paths, "components": {"schemas": schemas},
    }))
}

/// Name of ObjectMeta's schema in every document.
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

fn served<'a>(
    registry: &'a Registry,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = (&'a Definition, &'a Version)> {
    registry.iter().flat_map(move |definition| {
        let here = definition
            .versions
            .iter()
            .filter(move |candidate| candidate.group == group && candidate.name == version);
        here.map(|version| (&**definition, version))
    })
}

/// Returns the name of a kind's schema, with the group reversed as in apiextensions: `io.example.group.v1.Kind`.
fn schema_name(definition: &Definition, version: &Version) -> String {
    if version.group.is_empty() {
        return format!("io.k8s.api.core.{}.{}", version.name, definition.kind);
    }
    let backwards: Vec<&str> = version.group.rsplit('.').collect();
    format!("{}.{}.{}", backwards.join("."), version.name, definition.kind)
}

/// Returns the schema of a kind, with the members that every object has.
fn schema(definition: &Definition, version: &Version, prefix: &str) -> Value {
    let mut schema = version.openapi.clone();
    let metadata = json!({"allOf": [{"$ref": format!("{prefix}{META}")}], "default": {}, "description": "Standard object's metadata."});
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    schema["properties"]["metadata"] = metadata;
    schema["properties"]["apiVersion"] = json!({"type": "string", "description": "APIVersion defines the versioned schema of this representation of an object."});
    schema["properties"]["kind"] = json!({"type": "string", "description": "Kind is the REST resource this object represents."});
    schema["x-kubernetes-group-version-kind"] = json!([kind(definition, version)]);
    schema
}

fn kind(definition: &Definition, version: &Version) -> Value {
    json!({"group": version.group, "version": version.name, "kind": definition.kind})
}

fn root(definition: &Definition, version: &Version) -> String {
    let base = if version.group.is_empty() {
        format!("/api/{}", version.name)
    } else {
        format!("/apis/{}/{}", version.group, version.name)
    };
    let namespace = if definition.namespaced { "/namespaces/{namespace}" } else { "" };
    format!("{base}{namespace}/{}", definition.plural)
}

fn operation(definition: &Definition, version: &Version, verb: &str) -> Value {
    let query = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let names: &[&str] = match verb {
        "post" | "put" | "patch" => &["dryRun", "fieldManager", "fieldValidation"],
        "list" => {
            &["continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "watch"]
        }
        _ => &["dryRun"],
    };
    let parameters: Vec<Value> = names.iter().map(|name| query(name)).collect();
    json!({
        "x-kubernetes-action": verb, "x-kubernetes-group-version-kind": kind(definition, version),
        "parameters": parameters, "responses": {"200": {"description": "OK"}},
    })
}

/// Returns the schemas of ObjectMeta and of the types that ObjectMeta refers to, with Kubernetes' own descriptions, so
/// that `kubectl explain` prints the usual text.
fn metadata_schemas(definitions: &'static str) -> Map<String, Value> {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.definitions_path = definitions.into();
    });
    let mut generator = settings.into_generator();
    let _: Schema = generator.subschema_for::<ObjectMeta>();
    generator.take_definitions(true)
}
