use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::CommandLine;
use crate::failure::Failure;
use cli::Exit;
use cli::Output;

pub(crate) fn run(shell: Shell, output: Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), "warren", &mut script);
    output.text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
