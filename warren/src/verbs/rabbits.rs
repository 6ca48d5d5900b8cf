//! Shows rabbits as workload managers see them; disables, drains and enables them.

mod advise;
mod change;
mod df;
mod drain;
mod jobs;
mod show;

use std::collections::{BTreeMap, BTreeSet};

use api::{
    NnfNode, Storage,
    names::{NNF_NODE, STORAGE_NAMESPACE, annotation},
    storage::StorageState,
};
use apiclient::{Readable, list_readable};
use bytesize::ByteSize;
use cli::{Exit, Output};
use kube::{Client, ResourceExt, api::ListParams};
use serde::Serialize;

use crate::{
    args::{rabbits::RabbitVerb, workflow::Hosts},
    client::{CoordinatorArgs, ServerArgs},
    failure::{self, Failure},
};

const HEADER: [&str; 6] = ["RABBIT", "STATUS", "FREE", "JOBS", "COMPUTES", "REASON"];

/// One rabbit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Line {
    rabbit: String,
    status: String,
    /// Bytes that a new allocation could get.
    free: i64,
    /// Number of workflows that have storage on the rabbit.
    jobs: usize,
    /// The rabbit's computes, as a host list.
    computes: String,
    /// The computes whose links are not Ready, each with the state of its link.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    links: BTreeMap<String, String>,
    /// Why jobs cannot use the rabbit, or what is wrong with it.
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
}

pub(crate) async fn run(
    server: &ServerArgs,
    coordinator: &CoordinatorArgs,
    verb: &RabbitVerb,
    output: Output,
) -> Result<Exit, Failure> {
    let client = server.client(output).await?;
    match verb {
        RabbitVerb::List(args) => list(&client, &args.rabbits, output).await,
        RabbitVerb::Show { rabbit } => show::run(&client, coordinator, rabbit, output).await,
        RabbitVerb::Df(args) => df::run(&client, &args.rabbits, output).await,
        RabbitVerb::Drain { rabbits, reason, when_idle, timeout } => {
            let patience = when_idle.then_some(*timeout);
            drain::run(&client, rabbits, reason, patience, output).await
        }
        RabbitVerb::Advise { act } => advise::run(&client, coordinator, *act, output).await,
        RabbitVerb::Jobs(args) => jobs::run(&client, &args.rabbits, output).await,
        RabbitVerb::Disable { rabbits, reason } => {
            change::run(&client, rabbits, Some(reason), output).await
        }
        RabbitVerb::Enable { rabbits } => change::run(&client, rabbits, None, output).await,
    }
}

async fn list(client: &Client, rabbits: &[Hosts], output: Output) -> Result<Exit, Failure> {
    let storages = storages(client, rabbits, output).await?;
    let jobs = jobs::by_rabbit(client, output).await?;
    let count = |rabbit: &str| jobs.get(rabbit).map_or(0, jobs::workflows);
    let lines: Vec<_> =
        storages.iter().map(|storage| line(storage, count(&storage.name_any()))).collect();
    if output.is_json() {
        output.json(&lines)?;
    } else if lines.is_empty() {
        output.note("no rabbits: the workflow engine has made no Storage yet");
    } else {
        let rows: Vec<_> = lines.iter().map(row).collect();
        output.table(&HEADER.map(str::to_owned), &rows)?;
    }
    Ok(Exit::Done)
}

/// Returns the Storages of these rabbits, or of all, by name. Notes each Storage that cannot be read.
///
/// # Errors
/// Also when there is no Storage of a named rabbit.
async fn storages(
    client: &Client,
    rabbits: &[Hosts],
    output: Output,
) -> Result<Vec<Storage>, Failure> {
    let failed = |error| failure::api("list Storages", &error);
    let params = ListParams::default();
    let listed: Readable<Storage> =
        list_readable(client.clone(), Some(STORAGE_NAMESPACE), &params).await.map_err(failed)?;
    listed.unreadable.iter().for_each(|text| output.note(text));
    let wanted: BTreeSet<&str> =
        rabbits.iter().flat_map(|hosts| hosts.0.iter().map(String::as_str)).collect();
    let names: BTreeSet<String> = listed.items.iter().map(ResourceExt::name_any).collect();
    let unknown: Vec<_> = wanted.iter().filter(|name| !names.contains(**name)).collect();
    if !unknown.is_empty() {
        let unknown = directive::hostlist::compress(&unknown);
        let what = format!("{unknown}: there is no readable Storage of such a rabbit");
        return Err(Failure::new(Exit::Usage, what).remedy("`warren rabbit list` shows all"));
    }
    let is_wanted = |storage: &Storage| wanted.is_empty() || wanted.contains(&*storage.name_any());
    let mut storages: Vec<_> = listed.items.into_iter().filter(is_wanted).collect();
    storages.sort_by_key(ResourceExt::name_any);
    Ok(storages)
}

/// Returns the NnfNode of each rabbit, which the rabbit's agent writes, by rabbit.
async fn nodes(client: &Client, output: Output) -> Result<BTreeMap<String, NnfNode>, Failure> {
    let failed = |error| failure::api("list NnfNodes", &error);
    let listed: Readable<NnfNode> =
        list_readable(client.clone(), None, &ListParams::default()).await.map_err(failed)?;
    listed.unreadable.iter().for_each(|text| output.note(text));
    let nodes = listed.items.into_iter().filter(|node| node.name_any() == NNF_NODE);
    Ok(nodes.map(|node| (node.namespace().unwrap_or_default(), node)).collect())
}

fn iec(bytes: i64) -> String {
    ByteSize(bytes.try_into().unwrap_or_default()).display().iec().to_string()
}

fn line(storage: &Storage, jobs: usize) -> Line {
    let status = storage.status.clone().unwrap_or_default();
    let computes = &status.access.computes;
    let names: Vec<&str> = computes.iter().map(|compute| compute.name.as_str()).collect();
    let links = computes.iter().filter_map(|compute| {
        let state = compute.status.as_ref()?.to_string();
        (state != "Ready").then(|| (compute.name.clone(), state))
    });
    Line {
        rabbit: storage.name_any(),
        status: status.status.map_or_else(|| "Unknown".to_owned(), |status| status.to_string()),
        free: status.capacity,
        jobs,
        computes: directive::hostlist::compress(&names),
        links: links.collect(),
        reason: reason(storage, status.message),
    }
}

/// Returns why jobs cannot use a rabbit: for a disabled one, what the person or program said that disabled it.
fn reason(storage: &Storage, message: String) -> String {
    if storage.spec.state != StorageState::Disabled {
        return message;
    }
    let said = |key| storage.annotations().get(key).map(String::as_str).unwrap_or_default();
    let [why, by, at] =
        [annotation::DISABLE_REASON, annotation::DISABLED_BY, annotation::DISABLE_DATE].map(said);
    let parts = [("", why), ("by ", by), ("at ", at)];
    let parts = parts.iter().filter(|(_, text)| !text.is_empty());
    parts.map(|(word, text)| format!("{word}{text}")).collect::<Vec<_>>().join(", ")
}

fn row(line: &Line) -> Vec<String> {
    let links = line.links.iter().map(|(compute, state)| format!("link of {compute} {state}"));
    let reasons = [line.reason.clone()].into_iter().filter(|reason| !reason.is_empty());
    vec![
        line.rabbit.clone(),
        line.status.clone(),
        iec(line.free),
        line.jobs.to_string(),
        line.computes.clone(),
        reasons.chain(links).collect::<Vec<_>>().join("; "),
    ]
}
