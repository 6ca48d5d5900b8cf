//! `make demo`: shows Warren's main job on one computer.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
};

use tests::demo;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

const DIRECTORY: &str = "/var/tmp/warren-demo";

/// Runs the demo on a separate thread, so that the main thread can handle Ctrl-C at any moment.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let directory = match &*arguments {
        [] => PathBuf::from(DIRECTORY),
        [directory] if directory.is_absolute() => directory.clone(),
        _ => return demo::usage(Path::new(DIRECTORY)),
    };
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return ExitCode::FAILURE;
    };
    let (done, mut story) = oneshot::channel();
    let place = directory.clone();
    thread::spawn(move || done.send(demo::run(&place)));
    tokio::select! {
        outcome = &mut story => demo::farewell(outcome.ok(), &directory),
        _ = interrupt.recv() => demo::handle_interrupt(story, &directory).await,
        _ = terminate.recv() => demo::handle_interrupt(story, &directory).await,
    }
}
