//! Shows what `warren run` would make, by the coordinator's rehearsal. Makes nothing.

use bytesize::ByteSize;
use proto::v1::cluster_client::ClusterClient;
use proto::v1::{RehearseRequest, RehearseResponse, RehearsedStorage};
use serde_json::{Value, json};

use super::node_plans;
use super::run::nodes;
use crate::args::workflow::Run;
use crate::client::CoordinatorArgs;
use crate::failure::Failure;
use crate::workflow::life::{directives, proposal};
use cli::Exit;
use cli::Output;

const HEADER: [&str; 5] = ["DIRECTIVE", "RABBIT", "ALLOCATIONS", "EACH", "FREE NOW"];

/// Largest accepted answer in bytes: the objects of a job on every node of a large system.
const LARGEST_ANSWER: usize = 256 << 20;

pub(crate) async fn run(
    coordinator: &CoordinatorArgs,
    args: &Run,
    output: Output,
) -> Result<Exit, Failure> {
    let lines = directives(&args.directives)?;
    let computes = nodes(args)?;
    let name = args.owner.name.clone().unwrap_or_else(|| "dry-run".to_owned());
    let workflow = proposal(&name, &args.owner, "warren", &name, lines.clone());
    let workflow = serde_json::to_vec(&workflow)
        .map_err(|error| Failure::new(Exit::Failed, "write the Workflow").because(&error))?;
    let channel = coordinator.channel().await?;
    let answer = ClusterClient::new(channel)
        .max_decoding_message_size(LARGEST_ANSWER)
        .rehearse(RehearseRequest { workflow, computes })
        .await
        .map_err(|status| Failure::grpc("rehearse the job", &status))?;
    show(&answer.into_inner(), &lines, output)
}

fn show(answer: &RehearseResponse, lines: &[String], output: Output) -> Result<Exit, Failure> {
    if output.is_json() {
        output.json(&to_json(answer))?;
    } else {
        let rows: Vec<_> = answer.storage.iter().map(|storage| row(storage, lines)).collect();
        if !rows.is_empty() {
            output.table(&HEADER.map(str::to_owned), &rows)?;
        }
        node_plans::show(&answer.nodes, output)?;
    }
    if answer.failures.is_empty() {
        output.note("the storage could be made now; nothing was made");
        return Ok(Exit::Done);
    }
    let texts = answer.failures.iter().map(|failure| match failure.directive {
        Some(index) => format!("{}: {}", line(lines, index), failure.message),
        None => failure.message.clone(),
    });
    let texts: Vec<_> = texts.collect();
    Err(Failure::new(Exit::StorageFault, texts.join("\n"))
        .remedy("nothing was made: correct the directives, or wait until rabbits have room"))
}

fn line(lines: &[String], index: u32) -> &str {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    lines.get(index).map_or("directive", String::as_str)
}

fn row(storage: &RehearsedStorage, lines: &[String]) -> Vec<String> {
    vec![
        line(lines, storage.directive).to_owned(),
        storage.rabbit.clone(),
        format!("{} {}", storage.count, storage.label),
        ByteSize(storage.bytes).to_string(),
        ByteSize(storage.free).to_string(),
    ]
}

fn to_json(answer: &RehearseResponse) -> Value {
    let storage = answer.storage.iter().map(|storage| {
        json!({
            "directive": storage.directive, "rabbit": storage.rabbit, "label": storage.label,
            "count": storage.count, "bytes": storage.bytes, "free": storage.free,
        })
    });
    let failures = answer.failures.iter();
    let failures =
        failures.map(|failure| json!({"directive": failure.directive, "message": failure.message}));
    let objects =
        answer.objects.iter().filter_map(|object| serde_json::from_slice::<Value>(object).ok());
    json!({
        "storage": storage.collect::<Vec<_>>(),
        "failures": failures.collect::<Vec<_>>(),
        "objects": objects.collect::<Vec<_>>(),
        "nodes": answer.nodes.iter().map(node_plans::to_json).collect::<Vec<_>>(),
    })
}
