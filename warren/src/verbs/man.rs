use std::path::Path;

use clap::CommandFactory;

use crate::args::CommandLine;
use crate::failure::Failure;
use nodeclient::Exit;
use nodeclient::Output;

pub(crate) fn run(directory: &Path, output: Output) -> Result<Exit, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Failed, format!("write manual pages into {}", directory.display()))
            .because(&error)
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(CommandLine::command(), directory).map_err(failed)?;
    output.line(&directory.display().to_string())?;
    Ok(Exit::Done)
}
