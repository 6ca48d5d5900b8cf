//! One file per verb.

mod apply;
mod backup;
mod completions;
mod delete;
mod get;
mod man;
mod mounts;
mod nodes;
mod plan;
mod wait;

use crate::args::{CommandLine, Verb};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

/// Carries out the verb of a command line.
pub(crate) async fn run(line: CommandLine, output: Output) -> Result<Exit, Failure> {
    let global = &line.global;
    match line.verb {
        Verb::Apply(args) => apply::run(&global.server, &args, output).await,
        Verb::Get(args) => get::run(&global.server, &args, output).await,
        Verb::Nodes => nodes::run(&global.coordinator, output).await,
        Verb::Mounts(args) => mounts::run(&global.server, &args, output).await,
        Verb::Plan(args) => plan::run(&global.server, &args, output).await,
        Verb::Wait(args) => wait::run(&global.server, &args, output).await,
        Verb::Delete(args) => delete::run(&global.server, &args, output).await,
        Verb::Backup { file } => backup::run(&global.server, &file, output).await,
        Verb::Completions { shell } => completions::run(shell, output),
        Verb::Man { directory } => man::run(&directory, output),
    }
}
