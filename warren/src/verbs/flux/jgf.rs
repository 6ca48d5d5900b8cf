//! `warren flux jgf`.

use std::path::Path;

use cli::{Exit, Output};
use flux::{
    Graph, Mapping, Resources,
    graph::{self, Settings, Summary},
    json,
};
use serde::Deserialize;
use serde_json::Value;

use super::{STANDARD_INPUT, destination, mapping, read};
use crate::{args::flux::Jgf, client::ServerArgs, failure::Failure};

/// Ssds of a rabbit, as in flux-coral2.
const CHUNKS: u32 = 36;

pub(super) async fn run(server: &ServerArgs, args: &Jgf, output: Output) -> Result<Exit, Failure> {
    let checked = args.destination.check.as_deref();
    let file = match checked {
        Some(file) => Some((file, read_json(file)?)),
        None => None,
    };
    let (r, is_of_file) = match (&args.resources, &file) {
        (None, Some((_, old))) if old.get("execution").is_some() => (old.clone(), true),
        (from, _) => (read_json(from.as_deref().unwrap_or(Path::new(STANDARD_INPUT)))?, false),
    };
    let mapping = mapping(server, args.mapping.as_deref(), output).await?;
    let now = build(args, &r, &mapping)?;
    if let Some((file, old)) = file {
        let name = file.display().to_string();
        let more = if is_of_file { &["--resources", name.as_str()][..] } else { &[] };
        return destination::report(file, &differences(&old, &now)?, more, output);
    }
    let unwritten = |error| Failure::new(Exit::Failed, "write JSON").because(&error);
    let text = if args.only_sched {
        json::text(&now, None)
    } else {
        let mut with_graph = r;
        with_graph["scheduling"] = serde_json::to_value(&now).map_err(unwritten)?;
        json::text(&with_graph, None)
    };
    destination::write(&args.destination, &text.map_err(unwritten)?, output)
}

fn read_json(file: &Path) -> Result<Value, Failure> {
    serde_json::from_str(&read(file)?).map_err(|error| {
        Failure::new(Exit::Failed, format!("{} is not JSON", file.display())).because(&error)
    })
}

/// Builds the graph for an R. An R that has a graph gives the defaults for cluster and ssds.
fn build(args: &Jgf, r: &Value, mapping: &Mapping) -> Result<Graph, Failure> {
    let failed = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(Exit::Failed, "build the graph").because(error)
    };
    let resources = Resources::parse(r).map_err(|error| failed(&error))?;
    let excluded = resources.excluded(&args.exclude).map_err(|error| failed(&error))?;
    let old = Graph::deserialize(&r["scheduling"]).ok();
    let old = old.and_then(|graph| Summary::new(&graph).ok());
    let ssds = old.as_ref().and_then(|old| {
        let chassis = old.rabbits.values().next()?;
        u32::try_from(chassis.ssds.len()).ok().filter(|count| *count > 0)
    });
    let cluster = args.cluster_name.clone().or_else(|| old.map(|old| old.cluster));
    let settings = Settings {
        cluster: cluster.map_or_else(own_cluster, Ok)?,
        chunks: args.chunks.or(ssds).unwrap_or(CHUNKS),
        validate: !args.no_validate,
        excluded,
    };
    graph::build(mapping, &resources, &settings).map_err(|error| failed(&error))
}

fn own_cluster() -> Result<String, Failure> {
    let host = nix::unistd::gethostname()
        .map_err(|error| Failure::new(Exit::Failed, "read this host's name").because(&error))?;
    Ok(graph::cluster_name(&host.to_string_lossy()))
}

/// Returns the differences of a file, an R or a graph alone, from the cluster.
fn differences(file: &Value, now: &Graph) -> Result<Vec<String>, Failure> {
    let graph = file.get("scheduling").unwrap_or(file);
    if graph.get("graph").is_none() {
        return Ok(vec!["the file has no graph of rabbits (key scheduling)".to_owned()]);
    }
    let old = Graph::deserialize(graph).map_err(|error| unreadable(&error))?;
    graph::differences(&old, now).map_err(|error| unreadable(&error))
}

fn unreadable(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::new(Exit::Failed, "read the graph of the file").because(error)
}
