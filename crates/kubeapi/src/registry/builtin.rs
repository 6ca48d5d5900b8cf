//! The kinds that exist without a CRD, described in the form of CRDs.

use super::crd::Spec;
use super::{Column, Definition, NameRule, Selectable, Version, event_table};
use crate::schema::Schema;

pub(crate) const NAMESPACES: &str = "namespaces";
pub(crate) const EVENTS: &str = "events";
pub(crate) const CONFIG_MAPS: &str = "configmaps";
pub(crate) const SECRETS: &str = "secrets";
pub(crate) const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Renamed fields: the name in an events.k8s.io/v1 Event, and the name in a core/v1 Event (kubernetes
/// `pkg/apis/events/v1/conversion.go`).
const EVENT_RENAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

pub(crate) fn definitions() -> Vec<Definition> {
    let specs: Vec<Spec> = serde_saphyr::from_str(include_str!("builtin.yaml"))
        .expect("builtin.yaml is well formed, as a test shows");
    specs.into_iter().map(definition).collect()
}

fn definition(spec: Spec) -> Definition {
    let mut causes = Vec::new();
    let base = spec.define(&mut causes);
    let mut definition = Definition {
        custom: false,
        counts_generation: &*base.id == CRDS,
        unconditional_update: !matches!(
            &*base.group,
            "coordination.k8s.io" | "apiextensions.k8s.io"
        ),
        name_rule: match &*base.id {
            NAMESPACES => NameRule::Label,
            EVENTS => NameRule::Segment,
            _ => NameRule::Subdomain,
        },
        ..base
    };
    if &*definition.id == EVENTS {
        let newer = definition.versions.iter_mut().map(newer_events).collect::<Vec<_>>();
        definition.versions.extend(newer);
    }
    definition
}

/// Completes the core/v1 version of Events, and returns the events.k8s.io/v1 version that it derives from that version.
fn newer_events(older: &mut Version) -> Version {
    let source = ["source", "component"].map(str::to_owned);
    older.columns = event_table::columns();
    older.selectable.push(Selectable { name: "source".to_owned(), path: source.into() });
    let (mut openapi, mut selectable) = (older.openapi.clone(), older.selectable.clone());
    for (here, stored) in EVENT_RENAMES {
        if let Some(properties) = openapi["properties"].as_object_mut()
            && let Some(schema) = properties.remove(stored)
        {
            properties.insert(here.to_owned(), schema);
        }
        for field in selectable.iter_mut().filter(|field| field.path[0] == stored) {
            field.name = field.name.replacen(stored, here, 1);
        }
    }
    Version {
        group: "events.k8s.io".to_owned(),
        name: older.name.clone(),
        schema: Schema::compile(&openapi).expect("the schema differs in names only"),
        openapi,
        has_status: false,
        columns: older.columns.clone(),
        selectable,
        renames: &EVENT_RENAMES,
        deprecation: None,
    }
}

pub(crate) fn default_columns() -> Vec<Column> {
    let age = Column::new("Age", "date", ".metadata.creationTimestamp");
    vec![Column::name_column(), age.expect("a plain path is well formed")]
}
