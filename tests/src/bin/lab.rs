//! `make lab`: the scenarios that need guests.

use std::{process::ExitCode, thread, time::Duration};

use tests::{
    lab::{Assets, report::complain, scenarios},
    program::{interrupt, kill_children},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot::{self, error::TryRecvError},
    time::sleep,
};

/// Runs the scenarios on a separate thread, so that the main thread can handle Ctrl-C at any moment.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let names: Vec<_> = std::env::args().skip(1).collect();
    let selected =
        Assets::from_environment().and_then(|assets| Ok((assets, scenarios::select(&names)?)));
    let (assets, scenarios) = match selected {
        Ok(selected) => selected,
        Err(error) => {
            complain(&format!("lab: {error:#}"));
            return ExitCode::from(2);
        }
    };
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return ExitCode::FAILURE;
    };
    let (done, mut passed) = oneshot::channel();
    thread::spawn(move || done.send(scenarios::run(&assets, &scenarios)));
    tokio::select! {
        passed = &mut passed => ExitCode::from(u8::from(passed != Ok(true))),
        _ = interrupt.recv() => handle_interrupt(passed).await,
        _ = terminate.recv() => handle_interrupt(passed).await,
    }
}

/// Handles Ctrl-C: switches all guests off and removes their files.
async fn handle_interrupt(mut passed: oneshot::Receiver<bool>) -> ExitCode {
    complain("interrupted: switching the guests off and removing what they had");
    interrupt();
    while matches!(passed.try_recv(), Err(TryRecvError::Empty)) {
        kill_children();
        sleep(Duration::from_millis(20)).await;
    }
    ExitCode::from(130)
}
