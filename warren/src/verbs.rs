//! The verbs of `warren`, one file each.

mod apply;
mod backup;
mod ca;
mod cabling;
mod completions;
mod containers;
mod delete;
mod flux;
mod get;
mod logs;
mod mounts;
mod movements;
mod node_plans;
mod nodes;
mod persistent;
mod plan;
mod rabbits;
mod rehearse;
mod run;
mod wait;
mod workflow;
mod workload;

use std::path::Path;

use nodeclient::SOCKET;

use crate::args::{CommandLine, Verb};
use crate::failure::Failure;
use cli::Exit;
use cli::Output;

/// Runs the verb of a command line.
pub(crate) async fn run(line: CommandLine, output: Output) -> Result<Exit, Failure> {
    let global = &line.global;
    match line.verb {
        Verb::Run(args) if args.dry_run => rehearse::run(&global.coordinator, &args, output).await,
        Verb::Run(args) => run::run(&global.server, &args, output).await,
        Verb::Workflow(verb) => workflow::run(&global.server, &verb, output).await,
        Verb::Workload(verb) => workload::run(&global.coordinator, &verb, output).await,
        Verb::Persistent(verb) => persistent::run(&global.server, &verb, output).await,
        Verb::Apply(args) => apply::run(&global.server, &args, output).await,
        Verb::Get(args) => get::run(&global.server, &args, output).await,
        Verb::Nodes => nodes::run(&global.coordinator, output).await,
        Verb::Rabbit(verb) => {
            rabbits::run(&global.server, &global.coordinator, &verb, output).await
        }
        Verb::Flux(verb) => flux::run(&global.server, &verb, output).await,
        Verb::Cabling => cabling::run(&global.server, &global.coordinator, output).await,
        Verb::Mounts(args) => mounts::run(&global.server, &args, output).await,
        Verb::Containers(args) => containers::run(&global.server, &args, output).await,
        Verb::Movements(args) => movements::run(&global.server, &args, output).await,
        Verb::Logs(args) => logs::run(&global.server, &args, output).await,
        Verb::Node(node) => node.verb.run(Path::new(SOCKET), output).await,
        Verb::Plan(args) if args.workflow.is_some() => {
            node_plans::run(&global.coordinator, &args, output).await
        }
        Verb::Plan(args) => plan::run(&global.server, &args, output).await,
        Verb::Wait(args) => wait::run(&global.server, &args, output).await,
        Verb::Delete(args) => delete::run(&global.server, &args, output).await,
        Verb::Backup { file } => backup::run(&global.server, &file, output).await,
        Verb::Ca(verb) => ca::run(&verb, output),
        Verb::Completions { shell } => completions::run(shell, output),
    }
}
