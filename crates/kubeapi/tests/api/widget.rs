//! The CRD of the kind that the tests use.

use serde_json::{Value, json};

pub(crate) fn crd(group: &str) -> Value {
    let item = json!({
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "size": {"type": "integer", "default": 7}},
    });
    let spec = json!({
        "type": "object",
        "required": ["node"],
        "properties": {
            "node": {"type": "string", "minLength": 1, "maxLength": 20},
            "count": {"type": "integer", "format": "int32", "minimum": 0, "default": 1},
            "mode": {"type": "string", "enum": ["on", "off"]},
            "items": {"type": "array", "maxItems": 3, "items": item},
            "port": {"x-kubernetes-int-or-string": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "note": {"type": "string", "nullable": true},
        },
    });
    let status = json!({"type": "object", "properties": {"ready": {"type": "boolean"}, "since": {"type": "string", "format": "date-time"}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "selectableFields": [{"jsonPath": ".spec.node"}],
                "additionalPrinterColumns": [
                    {"name": "NODE", "type": "string", "jsonPath": ".spec.node"},
                    {"name": "READY", "type": "boolean", "jsonPath": ".status.ready"},
                    {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
            }],
        },
    })
}
