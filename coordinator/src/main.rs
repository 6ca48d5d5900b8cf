//! Starts the coordinator.

use std::process::ExitCode;

use clap::Parser;
use coordinator::Coordinator;
use coordinator::config::{CommandLine, Config};
use daemon::{start_logging, stopped, tell_ready, tell_stopping};
use tokio::runtime::Builder;

fn main() -> ExitCode {
    let line = CommandLine::parse();
    let level = line.log_level;
    let config = match Config::try_from(line) {
        Ok(config) => config,
        Err(error) => {
            clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{error}\n")).exit()
        }
    };
    let result = start_logging(level).map_err(anyhow::Error::from).and_then(|()| run(&config));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(config: &Config) -> anyhow::Result<()> {
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let coordinator = Coordinator::start(config).await?;
        log::info!(socket:% = config.socket.display(), api:? = coordinator.api_address(); "serve");
        tell_ready();
        coordinator
            .run_until(async {
                if let Ok(signal) = stopped().await {
                    log::info!(signal; "stop");
                }
                tell_stopping();
            })
            .await?;
        Ok(())
    })
}
