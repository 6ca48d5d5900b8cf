//! The spec of a CRD as a client writes it, and its conversion to a definition.

use super::priority;
use crate::registry::{Column, Definition, NameRule, Selectable, Version, builtin};
use crate::schema::Schema;
use crate::status::Cause;
use serde::Deserialize;
use serde_json::{Value, json};

/// `spec` of a CRD. Other fields of a CRD's spec have no effect.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in super::super) struct Spec {
    pub(super) group: String,
    pub(super) scope: String,
    pub(super) names: Names,
    pub(super) conversion: Value,
    pub(super) versions: Vec<WrittenVersion>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Names {
    pub(super) plural: String,
    singular: String,
    pub(super) kind: String,
    list_kind: String,
    short_names: Vec<String>,
    categories: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WrittenVersion {
    name: String,
    served: bool,
    pub(super) storage: bool,
    deprecated: bool,
    deprecation_warning: Option<String>,
    schema: Value,
    subresources: Value,
    additional_printer_columns: Vec<WrittenColumn>,
    selectable_fields: Vec<WrittenColumn>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenColumn {
    name: String,
    r#type: String,
    json_path: String,
    format: String,
    description: String,
    priority: i64,
}

impl Spec {
    /// Converts the spec to a definition. Leaves out invalid parts of versions, and adds their faults to `causes`.
    pub(in super::super) fn define(self, causes: &mut Vec<Cause>) -> Definition {
        let Self { group, scope, names, versions, .. } = self;
        let storage = versions.iter().find(|version| version.storage);
        let storage = storage.map(|version| version.name.clone()).unwrap_or_default();
        let served = versions.iter().enumerate().filter(|(_, version)| version.served);
        let mut served: Vec<Version> = served
            .filter_map(|(index, version)| {
                version.compile(&format!("spec.versions[{index}]"), &group, &names.kind, causes)
            })
            .collect();
        served.sort_by_key(|version| std::cmp::Reverse(priority(&version.name)));
        let or = |name: String, default: String| if name.is_empty() { default } else { name };
        let id = match &*group {
            "" => names.plural.clone(),
            group => format!("{}.{group}", names.plural),
        };
        Definition {
            id: id.into(),
            singular: or(names.singular, names.kind.to_lowercase()),
            list_kind: or(names.list_kind, format!("{}List", names.kind)),
            short_names: names.short_names,
            categories: names.categories,
            namespaced: scope == "Namespaced",
            versions: served,
            storage_version: match &*group {
                "" => storage,
                group => format!("{group}/{storage}"),
            },
            custom: true,
            counts_generation: true,
            unconditional_update: false,
            terminating: false,
            name_rule: NameRule::Subdomain,
            group,
            plural: names.plural,
            kind: names.kind,
        }
    }
}

impl WrittenVersion {
    fn compile(
        &self,
        path: &str,
        group: &str,
        kind: &str,
        causes: &mut Vec<Cause>,
    ) -> Option<Version> {
        let at = format!("{path}.schema.openAPIV3Schema");
        let Some(openapi) = self.schema.get("openAPIV3Schema") else {
            causes.push(Cause::required(at, "schemas are required"));
            return None;
        };
        if self.subresources.get("scale").is_some() {
            let field = format!("{path}.subresources.scale");
            causes.push(Cause::forbidden(field, "this server has no scale subresource"));
        }
        let columns = self.columns(path, causes);
        let selectable = self.selectable(path, causes);
        let schema = Schema::compile(openapi).map_err(|error| {
            let inner = error.path.strip_prefix("openAPIV3Schema").unwrap_or(&error.path);
            causes.push(Cause::invalid_without_value(format!("{at}{inner}"), error.problem));
        });
        let warning = self.deprecation_warning.clone();
        let deprecation =
            warning.unwrap_or_else(|| format!("{group}/{} {kind} is deprecated", self.name));
        Some(Version {
            group: group.to_owned(),
            schema: schema.ok()?,
            openapi: openapi.clone(),
            has_status: self.subresources.get("status").is_some(),
            columns,
            selectable,
            renames: &[],
            deprecation: self.deprecated.then_some(deprecation),
            name: self.name.clone(),
        })
    }
    fn columns(&self, path: &str, causes: &mut Vec<Cause>) -> Vec<Column> {
        let mut columns = vec![Column::name_column()];
        for (index, column) in self.additional_printer_columns.iter().enumerate() {
            match Column::new(&column.name, &column.r#type, &column.json_path) {
                Ok(base) => columns.push(Column {
                    format: column.format.clone(),
                    description: column.description.clone(),
                    priority: column.priority,
                    ..base
                }),
                Err(why) => {
                    let field = format!("{path}.additionalPrinterColumns[{index}].jsonPath");
                    causes.push(Cause::invalid(field, &json!(column.json_path), why));
                }
            }
        }
        if columns.len() == 1 { builtin::default_columns() } else { columns }
    }

    fn selectable(&self, path: &str, causes: &mut Vec<Cause>) -> Vec<Selectable> {
        let mut selectable = Vec::new();
        for (index, field) in self.selectable_fields.iter().enumerate() {
            let compiled = Selectable::from_json_path(&field.json_path);
            if compiled.is_none() {
                let at = format!("{path}.selectableFields[{index}].jsonPath");
                let why = "must be a simple path such as .spec.node";
                causes.push(Cause::invalid(at, &json!(field.json_path), why));
            }
            selectable.extend(compiled);
        }
        selectable
    }
}
