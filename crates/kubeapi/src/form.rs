//! The shapes in which objects are shown: as they are, as rows of a table, or as metadata alone.

use crate::object::Stored;
use crate::registry::{Column, Resource, builtin, event_table};
use crate::status::Status;
use hyper::body::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;

/// What a client asked to see (`as=` in its Accept header).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Object,
    Table { include: Include },
    Metadata,
}

/// What a table row carries beside its cells (`includeObject`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) resource: Resource,
    pub(crate) revision: u64,
    pub(crate) items: Vec<Arc<Stored>>,
    pub(crate) token: Option<String>,
    /// Objects after this page; unknown under a selector.
    pub(crate) remaining: Option<usize>,
}

impl Form {
    /// One object.
    pub(crate) fn one(
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

    /// One page of a list.
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
                // Lists of custom resources always have the member, those of built-in kinds only when it says something.
                if resource.definition.custom && page.token.is_none() {
                    meta["continue"] = json!("");
                }
                let items = page
                    .items
                    .iter()
                    .map(|stored| resource.version().present(&resource.definition, stored));
                let mut items = items.collect::<Result<Vec<_>, _>>()?;
                if !resource.definition.custom {
                    // Typed lists say once, for all, what their items are.
                    items.iter_mut().for_each(|item| *item = without_type(item));
                }
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

/// An encoded object without its type, which is written first.
fn without_type(item: &Bytes) -> Bytes {
    let head = b"\"metadata\":";
    match item.windows(head.len()).position(|window| window == head) {
        Some(at) => [b"{", item.get(at..).unwrap_or_default()].concat().into(),
        None => item.clone(),
    }
}

/// A list put together from objects that are encoded already.
fn list(kind: &str, api_version: &str, meta: &Value, items: &[Bytes]) -> Bytes {
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{meta},\"items\":[",
        json!(kind),
        json!(api_version)
    );
    let size: usize = items.iter().map(|item| item.len() + 1).sum();
    let mut text = Vec::with_capacity(head.len() + size + 2);
    text.extend_from_slice(head.as_bytes());
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(item);
    }
    text.extend_from_slice(b"]}");
    Bytes::from(text)
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
