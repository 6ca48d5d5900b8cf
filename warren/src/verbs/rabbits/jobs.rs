//! Lists the workflows and persistent storage that have bytes on rabbits.

use std::collections::BTreeMap;

use api::{NnfNodeBlockStorage, RabbitLabels, names::label};
use apiclient::{Readable, list_readable};
use cli::{Exit, Output};
use kube::{Client, ResourceExt, api::ListParams};
use serde::Serialize;

use super::{iec, storages};
use crate::{
    args::workflow::Hosts,
    failure::{self, Failure},
};

const HEADER: [&str; 5] = ["RABBIT", "NAMESPACE", "NAME", "KIND", "BYTES"];

/// What has storage on a rabbit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct User {
    pub namespace: String,
    pub name: String,
    /// True for persistent storage, false for a workflow's own storage.
    pub persistent: bool,
}

/// Requested bytes of each user of a rabbit.
pub(super) type Users = BTreeMap<User, i64>;

/// The storage of one user on a rabbit.
#[derive(Debug, Serialize)]
struct Line {
    rabbit: String,
    #[serde(flatten)]
    user: User,
    bytes: i64,
}

/// Returns the number of workflows among the users.
pub(super) fn workflows(users: &Users) -> usize {
    users.keys().filter(|user| !user.persistent).count()
}

pub(super) async fn run(
    client: &Client,
    rabbits: &[Hosts],
    output: Output,
) -> Result<Exit, Failure> {
    let mut all = by_rabbit(client, output).await?;
    let mut lines = Vec::new();
    for storage in storages(client, rabbits, output).await? {
        let rabbit = storage.name_any();
        let users = all.remove(&rabbit).unwrap_or_default().into_iter();
        lines.extend(users.map(|(user, bytes)| Line { rabbit: rabbit.clone(), user, bytes }));
    }
    if output.is_json() {
        output.json(&lines)?;
    } else if lines.is_empty() {
        output.note("no readable NnfNodeBlockStorage is there");
    } else {
        let rows: Vec<_> = lines.iter().map(row).collect();
        output.table(&HEADER.map(str::to_owned), &rows)?;
    }
    Ok(Exit::Done)
}

fn row(line: &Line) -> Vec<String> {
    let User { namespace, name, .. } = &line.user;
    let kind = kind(&line.user).to_owned();
    vec![line.rabbit.clone(), namespace.clone(), name.clone(), kind, iec(line.bytes)]
}

/// Returns the word for the kind of a user.
pub(super) fn kind(user: &User) -> &'static str {
    if user.persistent { "persistent" } else { "workflow" }
}

/// Returns what has storage on each rabbit. Notes each block storage that cannot be read: its rabbit is not empty.
pub(super) async fn by_rabbit(
    client: &Client,
    output: Output,
) -> Result<BTreeMap<String, Users>, Failure> {
    read(client, output).await.map(|(all, _)| all)
}

/// Like [`by_rabbit`], with the number of block storages that cannot be read.
pub(super) async fn read(
    client: &Client,
    output: Output,
) -> Result<(BTreeMap<String, Users>, usize), Failure> {
    let failed = |error| failure::api("list NnfNodeBlockStorages", &error);
    let listed: Readable<NnfNodeBlockStorage> =
        list_readable(client.clone(), None, &ListParams::default()).await.map_err(failed)?;
    listed.unreadable.iter().for_each(|text| output.note(text));
    let mut all: BTreeMap<String, Users> = BTreeMap::new();
    for block in listed.items {
        let bytes: i64 = block.spec.allocations.iter().map(|allocation| allocation.capacity).sum();
        let users = all.entry(block.namespace().unwrap_or_default()).or_default();
        *users.entry(user(&block)).or_default() += bytes;
    }
    Ok((all, listed.unreadable.len()))
}

/// Returns whose storage a block storage is, from its labels; of an object without them, the object itself. The Go
/// controllers name the NnfStorage as its owner: a job's has the name of the workflow with the index of the directive,
/// that of persistent storage has the storage's name.
fn user(block: &NnfNodeBlockStorage) -> User {
    let owner = block.owner().filter(|owner| owner.kind == "NnfStorage");
    let of_workflow = block.workflow().zip(block.directive_index());
    let of_workflow = of_workflow.map(|(workflow, index)| format!("{}-{index}", workflow.name));
    if let Some(owner) = owner.filter(|owner| of_workflow.is_some_and(|name| name != owner.name)) {
        let (namespace, name) = (owner.namespace.to_owned(), owner.name.to_owned());
        return User { namespace, name, persistent: true };
    }
    let said = |key| block.labels().get(key).cloned();
    let named = |namespace, name, persistent| {
        Some(User { namespace: said(namespace)?, name: said(name)?, persistent })
    };
    let own = || User {
        namespace: block.namespace().unwrap_or_default(),
        name: block.name_any(),
        persistent: true,
    };
    named(label::PERSISTENT_NAMESPACE, label::PERSISTENT_NAME, true)
        .or_else(|| named(label::WORKFLOW_NAMESPACE, label::WORKFLOW_NAME, false))
        .unwrap_or_else(own)
}
