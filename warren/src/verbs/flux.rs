//! The verbs of `warren flux`: the files from which Flux knows rabbits, and whether a site's files are current.

mod destination;
mod get_rabbit;
mod jgf;
mod rabbit_mapping;

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use cli::{Exit, Output};
use flux::Mapping;

use crate::{args::flux::FluxVerb, client::ServerArgs, failure::Failure};

/// Name of standard input on a command line.
const STANDARD_INPUT: &str = "-";

pub(crate) async fn run(
    server: &ServerArgs,
    verb: &FluxVerb,
    output: Output,
) -> Result<Exit, Failure> {
    match verb {
        FluxVerb::Rabbitmapping(args) => rabbit_mapping::run(server, args, output).await,
        FluxVerb::Jgf(args) => jgf::run(server, args, output).await,
        FluxVerb::Getrabbit(args) => get_rabbit::run(server, args, output).await,
    }
}

/// Returns the mapping of a file, or without a file the cluster's.
async fn mapping(
    server: &ServerArgs,
    file: Option<&Path>,
    output: Output,
) -> Result<Mapping, Failure> {
    let Some(file) = file else {
        return rabbit_mapping::of_cluster(&server.client(output).await?, false, output).await;
    };
    let parsed = Mapping::parse(&read(file)?);
    parsed.map_err(|error| Failure::new(Exit::Failed, file.display().to_string()).because(&error))
}

/// Returns the text of a file, or of standard input.
fn read(file: &Path) -> Result<String, Failure> {
    let text = if file == Path::new(STANDARD_INPUT) {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(file)
    };
    text.map_err(|error| {
        Failure::new(Exit::Failed, format!("read {}", file.display())).because(&error)
    })
}
