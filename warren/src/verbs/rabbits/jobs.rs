//! Lists the workflows that have storage on rabbits.

use std::collections::BTreeMap;

use api::{NnfNodeBlockStorage, names::label};
use apiclient::{Readable, list_readable};
use bytesize::ByteSize;
use cli::{Exit, Output};
use kube::{Client, ResourceExt, api::ListParams};
use serde::Serialize;

use super::storages;
use crate::{
    args::workflow::Hosts,
    failure::{self, Failure},
};

const HEADER: [&str; 4] = ["RABBIT", "NAMESPACE", "WORKFLOW", "BYTES"];

/// Requested bytes of each workflow, by the workflow's namespace and name. Persistent storage has the name of the
/// workflow that made it.
type Jobs = BTreeMap<(String, String), i64>;

/// The storage of a workflow on a rabbit.
#[derive(Debug, Serialize)]
struct Line {
    rabbit: String,
    namespace: String,
    workflow: String,
    bytes: i64,
}

pub(super) async fn run(
    client: &Client,
    rabbits: &[Hosts],
    output: Output,
) -> Result<Exit, Failure> {
    let mut jobs = by_rabbit(client, output).await?;
    let mut lines = Vec::new();
    for storage in storages(client, rabbits, output).await? {
        let rabbit = storage.name_any();
        let of_rabbit = jobs.remove(&rabbit).unwrap_or_default().into_iter();
        lines.extend(of_rabbit.map(|((namespace, workflow), bytes)| {
            let rabbit = rabbit.clone();
            Line { rabbit, namespace, workflow, bytes }
        }));
    }
    if output.is_json() {
        output.json(&lines)?;
    } else if lines.is_empty() {
        output.note("no readable NnfNodeBlockStorage is there");
    } else {
        let row = |line: &Line| {
            let bytes = ByteSize(line.bytes.try_into().unwrap_or_default());
            let bytes = bytes.display().iec().to_string();
            vec![line.rabbit.clone(), line.namespace.clone(), line.workflow.clone(), bytes]
        };
        let rows: Vec<_> = lines.iter().map(row).collect();
        output.table(&HEADER.map(str::to_owned), &rows)?;
    }
    Ok(Exit::Done)
}

/// Returns the workflows that have storage on each rabbit. Notes each block storage that cannot be read: its rabbit is not
/// empty.
pub(super) async fn by_rabbit(
    client: &Client,
    output: Output,
) -> Result<BTreeMap<String, Jobs>, Failure> {
    let failed = |error| failure::api("list NnfNodeBlockStorages", &error);
    let listed: Readable<NnfNodeBlockStorage> =
        list_readable(client.clone(), None, &ListParams::default()).await.map_err(failed)?;
    listed.unreadable.iter().for_each(|text| output.note(text));
    let mut all: BTreeMap<String, Jobs> = BTreeMap::new();
    for block in listed.items {
        let said = |key| block.labels().get(key).cloned().unwrap_or_default();
        let workflow = (said(label::WORKFLOW_NAMESPACE), said(label::WORKFLOW_NAME));
        let bytes: i64 = block.spec.allocations.iter().map(|allocation| allocation.capacity).sum();
        let jobs = all.entry(block.namespace().unwrap_or_default()).or_default();
        *jobs.entry(workflow).or_default() += bytes;
    }
    Ok(all)
}
