//! The forms in which the server sends objects: whole, as rows of a table, or as metadata alone.

use crate::object::Stored;
use crate::registry::{Column, Resource, builtin, event_table};
use crate::status::Status;
use hyper::body::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;

/// The form that a client asked for (`as=` in its Accept header).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Object,
    Table { include: Include },
    Metadata,
}

/// The part of the object that a table row contains in addition to its cells (`includeObject`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) resource: Resource,
    pub(crate) revision: u64,
    pub(crate) items: Vec<Arc<Stored>>,
    pub(crate) token: Option<String>,
    /// Number of objects after this page; `None` if the list has a selector.
    pub(crate) remaining: Option<usize>,
}

impl Form {
    pub(crate) fn encode_object(
        self,
        resource: &Resource,
        stored: &Stored,
        header: bool,
    ) -> Result<Bytes, Status> {
        match self {
            Self::Object => resource.version().present(&resource.definition, stored),
            Self::Metadata => Ok(encode(&metadata(&value(resource, stored)?))),
            Self::Table { include } => {
                let rows = vec![row(resource, stored, include)?];
                let revision = json!({"resourceVersion": stored.revision.to_string()});
                Ok(encode(&table(resource, &revision, &rows, header)))
            }
        }
    }

    pub(crate) fn page(self, page: &Page) -> Result<Bytes, Status> {
        let mut meta = json!({"resourceVersion": page.revision.to_string()});
        if let Some(token) = &page.token {
            meta["continue"] = json!(token);
        }
        if let Some(remaining) = page.remaining {
            meta["remainingItemCount"] = json!(remaining);
        }
        let resource = &page.resource;
        match self {
            Self::Object => {
                let items = page
                    .items
                    .iter()
                    .map(|stored| resource.version().present(&resource.definition, stored));
                let items = items.collect::<Result<Vec<_>, _>>()?;
                Ok(list(
                    &resource.definition.list_kind,
                    &resource.version().api_version(),
                    &meta,
                    &items,
                ))
            }
            Self::Metadata => {
                let items = page
                    .items
                    .iter()
                    .map(|stored| Ok(encode(&metadata(&value(resource, stored)?))));
                let items = items.collect::<Result<Vec<_>, Status>>()?;
                Ok(list("PartialObjectMetadataList", "meta.k8s.io/v1", &meta, &items))
            }
            Self::Table { include } => {
                let rows = page.items.iter().map(|stored| row(resource, stored, include));
                let rows = rows.collect::<Result<Vec<_>, _>>()?;
                Ok(encode(&table(resource, &meta, &rows, true)))
            }
        }
    }
}

/// Assembles a list from objects that are encoded already.
fn list(kind: &str, api_version: &str, meta: &Value, items: &[Bytes]) -> Bytes {
    let (kind, version) = (json!(kind), json!(api_version));
    let head = format!(r#"{{"kind":{kind},"apiVersion":{version},"metadata":{meta},"items":["#);
    let items = items.join(&b',');
    [head.as_bytes(), &items, b"]}"].concat().into()
}

fn value(resource: &Resource, stored: &Stored) -> Result<Value, Status> {
    let mut object = stored.decode()?;
    resource.version().show(&resource.definition, &mut object);
    Ok(object.to_value())
}

fn metadata(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

fn table(resource: &Resource, meta: &Value, rows: &[Value], header: bool) -> Value {
    let columns: Option<Vec<Value>> =
        header.then(|| resource.version().columns.iter().map(Column::header).collect());
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta,
        "columnDefinitions": columns, "rows": rows,
    })
}

fn row(resource: &Resource, stored: &Stored, include: Include) -> Result<Value, Status> {
    let object = value(resource, stored)?;
    let cells: Vec<Value> = match &*resource.definition.id {
        builtin::EVENTS => event_table::cells(&stored.decode()?),
        _ => resource.version().columns.iter().map(|column| column.cell(&object)).collect(),
    };
    let mut row = json!({ "cells": cells, "object": null });
    match include {
        Include::None => {}
        Include::Metadata => row["object"] = metadata(&object),
        Include::Object => row["object"] = object,
    }
    Ok(row)
}

pub(crate) fn encode(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}
