use super::{FieldValidation, Target, admit, create, update};
use crate::registry::builtin;
use crate::status::Status;
use crate::store::{Batch, Outcome};
use serde_json::Value;

/// Creates a namespace or CRD, or updates an existing CRD. An existing namespace stays unchanged. Answers 400 for any
/// other kind of object.
pub(crate) fn install(batch: &mut Batch<'_>, value: Value) -> Result<Outcome, Status> {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, plural) = match (text("/apiVersion"), text("/kind")) {
        ("v1", "Namespace") => ("", builtin::NAMESPACES),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => {
            ("apiextensions.k8s.io", "customresourcedefinitions")
        }
        (version, kind) => {
            return Err(Status::bad_request(format!(
                "{version} {kind} is no CustomResourceDefinition"
            )));
        }
    };
    let name = text("/metadata/name").to_owned();
    let target = Target {
        group: group.to_owned(),
        version: "v1".to_owned(),
        plural: plural.to_owned(),
        namespace: None,
        name: Some(name.clone()),
        subresource: None,
    };
    let resource = target.resolve(batch.registry())?;
    let key = target.key(&resource.definition, &name);
    match batch.get(&key) {
        None => create::create(batch, &target, value, FieldValidation::Ignore),
        Some(stored) if plural == builtin::NAMESPACES => {
            Ok(Outcome::Stored { code: 200, stored, warnings: Vec::new() })
        }
        Some(stored) => {
            let (mut object, warnings) = admit::read(&resource, value, FieldValidation::Ignore)?;
            // Keeps the stored metadata, to which clients may have added, and replaces everything else.
            object.meta = stored.decode()?.meta;
            update::replace(batch, &resource, None, &key, &stored, object, warnings)
        }
    }
}
