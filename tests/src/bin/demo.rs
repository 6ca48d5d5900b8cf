//! `make demo`: the main job on one box.

use std::{path::Path, process::ExitCode, thread};

use tests::demo;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

const DIRECTORY: &str = "/var/tmp/warren-demo";

/// The story runs on a thread of its own, so that Ctrl-C is answered at any moment of it.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let (done, mut story) = oneshot::channel();
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return ExitCode::FAILURE;
    };
    thread::spawn(move || done.send(demo::run(Path::new(DIRECTORY))));
    tokio::select! {
        outcome = &mut story => demo::farewell(outcome.ok(), Path::new(DIRECTORY)),
        _ = interrupt.recv() => demo::interrupted(story, Path::new(DIRECTORY)).await,
        _ = terminate.recv() => demo::interrupted(story, Path::new(DIRECTORY)).await,
    }
}
