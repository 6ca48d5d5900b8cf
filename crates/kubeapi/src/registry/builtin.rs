//! The kinds that exist without a CRD, described the same way.

use super::column::Printed;
use super::{Column, Definition, NameRule, Selectable, Version, event_table};
use crate::schema::Schema;
use serde_json::{Value, json};

pub(crate) const NAMESPACES: &str = "namespaces";
pub(crate) const EVENTS: &str = "events";
pub(crate) const CONFIG_MAPS: &str = "configmaps";
pub(crate) const SECRETS: &str = "secrets";
pub(crate) const LEASES: &str = "leases.coordination.k8s.io";
pub(crate) const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// An events.k8s.io/v1 Event is a core/v1 Event under newer names (kubernetes `pkg/apis/events/v1/conversion.go`).
const EVENT_RENAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// All of them.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![namespaces(), configmaps(), secrets(), events(), leases(), crds()]
}

fn namespaces() -> Definition {
    let schema = object(&json!({
        "spec": object(&json!({"finalizers": {"type": "array", "items": {"type": "string"}}})),
        "status": object(&json!({"phase": {"type": "string"}, "conditions": conditions()})),
    }));
    let columns =
        vec![Column::of_names(), printed("Status", Printed::Text, ".status.phase"), age_column()];
    let version = Version {
        has_status: true,
        columns,
        selectable: fields(&["status.phase"]),
        ..v1("", schema)
    };
    Definition {
        namespaced: false,
        name_rule: NameRule::Label,
        ..core("namespaces", "Namespace", &["ns"], version)
    }
}

fn configmaps() -> Definition {
    let schema = object(&json!({
        "data": strings(), "binaryData": {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}},
        "immutable": {"type": "boolean"},
    }));
    let columns = vec![
        Column::of_names(),
        printed("Data", Printed::Count, "['data','binaryData'].*"),
        age_column(),
    ];
    let version = Version { columns, ..v1("", schema) };
    core("configmaps", "ConfigMap", &["cm"], version)
}

fn secrets() -> Definition {
    let schema = object(&json!({
        "data": {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}},
        "stringData": strings(), "type": {"type": "string"}, "immutable": {"type": "boolean"},
    }));
    let columns = vec![
        Column::of_names(),
        printed("Type", Printed::Text, ".type"),
        printed("Data", Printed::Count, ".data.*"),
        age_column(),
    ];
    let version = Version { columns, selectable: fields(&["type"]), ..v1("", schema) };
    core("secrets", "Secret", &[], version)
}

fn events() -> Definition {
    let mut properties = json!({
        "involvedObject": reference(), "related": reference(), "reason": {"type": "string"}, "message": {"type": "string"},
        "source": object(&json!({"component": {"type": "string"}, "host": {"type": "string"}})),
        "firstTimestamp": time(), "lastTimestamp": time(), "eventTime": micro_time(), "count": {"type": "integer", "format": "int32"},
        "type": {"type": "string"}, "action": {"type": "string"}, "reportingComponent": {"type": "string"},
        "reportingInstance": {"type": "string"},
        "series": object(&json!({"count": {"type": "integer", "format": "int32"}, "lastObservedTime": micro_time()})),
    });
    let old = Version {
        columns: event_table::columns(),
        selectable: event_fields("involvedObject", "reportingComponent", "source.component"),
        ..v1("", object(&properties))
    };
    if let Some(map) = properties.as_object_mut() {
        for (here, stored) in EVENT_RENAMES {
            if let Some(schema) = map.remove(stored) {
                map.insert(here.to_owned(), schema);
            }
        }
    }
    let new = Version {
        renames: &EVENT_RENAMES,
        columns: old.columns.clone(),
        selectable: event_fields("regarding", "reportingController", "deprecatedSource.component"),
        ..v1("events.k8s.io", object(&properties))
    };
    let mut definition = core("events", "Event", &["ev"], old);
    definition.versions.push(new);
    definition.name_rule = NameRule::Segment;
    definition.create_on_update = true;
    definition
}

fn leases() -> Definition {
    let spec = object(&json!({
        "holderIdentity": {"type": "string"}, "leaseDurationSeconds": {"type": "integer", "format": "int32"},
        "acquireTime": micro_time(), "renewTime": micro_time(), "leaseTransitions": {"type": "integer", "format": "int32"},
        "strategy": {"type": "string"}, "preferredHolder": {"type": "string"},
    }));
    let columns = vec![
        Column::of_names(),
        printed("Holder", Printed::Text, ".spec.holderIdentity"),
        age_column(),
    ];
    let version = Version { columns, ..v1("coordination.k8s.io", object(&json!({"spec": spec}))) };
    Definition {
        create_on_update: true,
        unconditional_update: false,
        ..core("leases", "Lease", &[], version)
    }
}

fn crds() -> Definition {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = object(&json!({"spec": free, "status": free}));
    let created = printed("Created At", Printed::Text, ".metadata.creationTimestamp");
    let columns = vec![Column::of_names(), Column { kind: "date".to_owned(), ..created }];
    let version = Version { has_status: true, columns, ..v1("apiextensions.k8s.io", schema) };
    Definition {
        namespaced: false,
        counts_generation: true,
        unconditional_update: false,
        ..core("customresourcedefinitions", "CustomResourceDefinition", &["crd", "crds"], version)
    }
}

fn core(plural: &str, kind: &str, short: &[&str], version: Version) -> Definition {
    let id = if version.group.is_empty() {
        plural.to_owned()
    } else {
        format!("{plural}.{}", version.group)
    };
    Definition {
        id: id.into(),
        group: version.group.clone(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: short.iter().map(|name| (*name).to_owned()).collect(),
        categories: Vec::new(),
        namespaced: true,
        storage_version: version.api_version(),
        versions: vec![version],
        custom: false,
        counts_generation: false,
        unconditional_update: true,
        create_on_update: false,
        terminating: false,
        name_rule: NameRule::Subdomain,
    }
}

fn v1(group: &str, openapi: Value) -> Version {
    Version {
        group: group.to_owned(),
        name: "v1".to_owned(),
        schema: Schema::compile(&openapi)
            .expect("the schemas in this file are well formed, as a test shows"),
        openapi,
        has_status: false,
        columns: default_columns(),
        selectable: Vec::new(),
        renames: &[],
        deprecation: None,
    }
}

/// The columns of a kind without its own.
pub(crate) fn default_columns() -> Vec<Column> {
    vec![Column::of_names(), column("Age", "date", ".metadata.creationTimestamp")]
}

fn age_column() -> Column {
    printed("Age", Printed::Age, ".metadata.creationTimestamp")
}

/// A column of a printer of kube-apiserver.
fn printed(name: &str, printed: Printed, path: &str) -> Column {
    Column { printed: Some(printed), ..column(name, "string", path) }
}

fn column(name: &str, kind: &str, path: &str) -> Column {
    Column::new(name, kind, path).expect("the paths in this file are well formed, as a test shows")
}

fn event_fields(object: &str, component: &str, source: &str) -> Vec<Selectable> {
    let of_object =
        ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];
    let field = |name: String, path: &[&str]| Selectable {
        name,
        path: path.iter().map(|part| (*part).to_owned()).collect(),
    };
    let mut all: Vec<Selectable> = of_object
        .iter()
        .map(|part| field(format!("{object}.{part}"), &["involvedObject", part]))
        .collect();
    all.extend([
        field("reason".to_owned(), &["reason"]),
        field("type".to_owned(), &["type"]),
        field(component.to_owned(), &["reportingComponent"]),
        field("source".to_owned(), &["source", "component"]),
        field(source.to_owned(), &["source", "component"]),
    ]);
    all
}

fn fields(names: &[&str]) -> Vec<Selectable> {
    names.iter().filter_map(|name| Selectable::from_json_path(&format!(".{name}"))).collect()
}

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn strings() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

/// A time with exactly six digits after the second. A format that only built-in kinds have.
fn micro_time() -> Value {
    json!({"type": "string", "format": "micro-time"})
}

fn conditions() -> Value {
    json!({"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})
}

fn reference() -> Value {
    let parts = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];
    object(&parts.iter().map(|part| ((*part).to_owned(), json!({"type": "string"}))).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_builtin_compiles() {
        assert_eq!(super::definitions().len(), 6);
    }
}
