//! The kinds of the objects in random operations, and the bodies of these objects.

use crate::random::Random;
use crate::values::{self, Care};
use serde_json::{Value, json};

pub(crate) const NAMES: [&str; 5] = ["a", "b", "c", "d-1", "e.f"];

/// A kind that the operations use.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    /// Root of the kind's paths: `/apis/group/version` or `/api/v1`.
    pub(crate) root: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    pub(crate) custom: bool,
    pub(crate) schema: Value,
    /// Sample objects: the body of an operation is a copy of one of them, sometimes with a change. Empty for a kind
    /// whose bodies are generated from the schema.
    pub(crate) examples: Vec<Value>,
}

impl Kind {
    pub(crate) fn of_crd(crd: &Value, examples: Vec<Value>) -> Self {
        let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
        let version = &crd["spec"]["versions"][0];
        Self {
            root: format!("/apis/{}/{}", text("/spec/group"), version["name"].as_str().unwrap()),
            plural: text("/spec/names/plural"),
            kind: text("/spec/names/kind"),
            namespaced: text("/spec/scope") == "Namespaced",
            custom: true,
            schema: version["schema"]["openAPIV3Schema"].clone(),
            examples,
        }
    }

    fn builtin(root: &str, plural: &str, kind: &str, properties: &Value) -> Self {
        Self {
            root: root.to_owned(),
            plural: plural.to_owned(),
            kind: kind.to_owned(),
            namespaced: plural != "namespaces",
            custom: false,
            schema: json!({"type": "object", "properties": properties}),
            examples: Vec::new(),
        }
    }

    /// Returns the built-in kinds except Events. The real server requires that an Event is in the namespace of the
    /// object that it is about, and the embedded server does not check this.
    pub(crate) fn builtins() -> Vec<Self> {
        let text = json!({"type": "string"});
        let texts = json!({"type": "object", "additionalProperties": text});
        let bytes =
            json!({"type": "object", "additionalProperties": {"type": "string", "format": "byte"}});
        let flag = json!({"type": "boolean"});
        let int = json!({"type": "integer", "format": "int32"});
        let micro = json!({"type": "string", "format": "date-time"});
        vec![
            Self::builtin(
                "/api/v1",
                "configmaps",
                "ConfigMap",
                &json!({"data": texts, "binaryData": bytes}),
            ),
            Self::builtin(
                "/api/v1",
                "secrets",
                "Secret",
                &json!({"data": bytes, "stringData": texts, "type": {"type": "string", "enum": ["Opaque", "example.org/own", ""]}}),
            ),
            Self::builtin(
                "/apis/coordination.k8s.io/v1",
                "leases",
                "Lease",
                &json!({"spec": {"type": "object", "properties": {
                "holderIdentity": text, "leaseDurationSeconds": int, "leaseTransitions": int, "acquireTime": micro, "renewTime": micro}}}),
            ),
            Self::builtin("/api/v1", "namespaces", "Namespace", &json!({})),
            Self::builtin(
                "/api/v1",
                "configmaps",
                "ConfigMap",
                &json!({"data": texts, "immutable": flag}),
            ),
        ]
    }

    pub(crate) fn api_version(&self) -> &str {
        self.root.trim_start_matches("/apis/").trim_start_matches("/api/")
    }

    pub(crate) fn list(&self, namespace: &str) -> String {
        if self.namespaced {
            format!("{}/namespaces/{namespace}/{}", self.root, self.plural)
        } else {
            format!("{}/{}", self.root, self.plural)
        }
    }

    /// Returns the name of an object of this kind. The name of a Namespace contains the unique word of the run, because
    /// other runs use the same server.
    pub(crate) fn name(&self, random: &mut Random) -> String {
        let name = random.pick(&NAMES);
        if self.plural == "namespaces" {
            format!("<run>-spare-{}", name.replace('.', "-"))
        } else {
            name.to_owned()
        }
    }

    /// Returns the body of an object, without metadata.
    pub(crate) fn body(&self, random: &mut Random, care: Care) -> Value {
        let mut body = if self.examples.is_empty() {
            values::value(random, &self.schema, care)
        } else {
            let mut example = self.examples[random.below(self.examples.len())].clone();
            if care == Care::Nearly && random.chance(60) {
                mutate(random, &mut example);
            }
            example
        };
        if let Some(map) = body.as_object_mut().filter(|_| !self.custom) {
            // Leaves out empty maps, which some comparisons in kube-apiserver treat as absent and others do not.
            map.retain(|_, value| *value != json!({}));
        }
        if !body.is_object() {
            body = json!({ "spec": body });
        }
        body["apiVersion"] = json!(self.api_version());
        body["kind"] = json!(self.kind);
        body["metadata"] = json!({});
        body
    }
}

/// Changes a value at one random place inside the value.
pub(crate) fn mutate(random: &mut Random, value: &mut Value) {
    match value {
        Value::Object(map) if !map.is_empty() && random.chance(85) => {
            let keys: Vec<String> = map.keys().cloned().collect();
            let key = &keys[random.below(keys.len())];
            match random.below(10) {
                0 => drop(map.remove(key)),
                1 => drop(map.insert("unknownField".to_owned(), values::nonsense(random))),
                _ => mutate(random, map.get_mut(key).unwrap()),
            }
        }
        Value::Array(items) if !items.is_empty() && random.chance(85) => {
            let at = random.below(items.len());
            match random.below(8) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                _ => mutate(random, &mut items[at]),
            }
        }
        Value::String(_) => *value = values::no_list(random),
        other => *other = values::nonsense(random),
    }
}
