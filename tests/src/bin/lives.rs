//! Runs jobs from their first to their last state on the drives of this computer, for guests of the lab: `lives xfs`,
//! `lives raw`, `lives crash`, `lives until-written DIRECTORY`, `lives from-written DIRECTORY`.

use std::{path::Path, process::ExitCode};

use nix::unistd::pause;
use tests::{
    crash,
    lab::report::{complain, say},
    lives,
};

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["xfs"] => lives::xfs(2),
        ["raw"] => lives::raw(),
        ["crash"] => crash::kill_after_every_step_of_one_job(1)
            .map(|deaths| say(&format!("deaths {deaths}"))),
        ["until-written", directory] => {
            lives::until_written(Path::new(directory)).and_then(|run| {
                say(&run.prints(&["get", "nnfnode", "nnf-nlc", "-n", "rabbit-1", "--json"])?);
                say("written");
                // The programs run until the computer loses its power.
                pause();
                drop(run);
                Ok(())
            })
        }
        ["from-written", directory] => lives::from_written(Path::new(directory)),
        _ => Err(anyhow::anyhow!("usage: lives xfs|raw|crash|until-written DIR|from-written DIR")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("lives: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
