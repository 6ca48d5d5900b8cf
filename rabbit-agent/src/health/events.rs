//! Device events of the kernel: each is a reason to look, and none is believed.
//!
//! They are waited for on a thread of their own, which sleeps in the kernel while nothing moves: of tokio's ways to wait for a
//! file descriptor the safe ones are deprecated.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use daemon::{chain, vital_now};
use storage::linux::uevents::{Received, Uevents};

use super::Board;

/// A drive that is pulled is some ten events within milliseconds, a chassis that powers up thousands: those that come within
/// this time of the first are one call for a look.
const GATHER: Duration = Duration::from_millis(100);

/// Calls for a look whenever a device moves, until the process ends.
pub fn listen(board: Board) {
    let begun = Uevents::open().and_then(|ear| {
        thread::Builder::new().name("uevents".to_owned()).spawn(move || {
            if let Err(error) = vital_now("who hears device events", || hear(&ear, &board)) {
                unheard(&error);
            }
        })
    });
    if let Err(error) = begun {
        unheard(&error);
    }
}

fn unheard(error: &io::Error) {
    log::warn!(
        "device events cannot be heard ({}): drives and links are looked at every --drive-check only",
        chain(error)
    );
}

fn hear(ear: &Uevents, board: &Board) -> io::Result<()> {
    loop {
        ear.wait(None)?;
        if drain(ear)? {
            let end = Instant::now() + GATHER;
            while ear.wait(Some(end.saturating_duration_since(Instant::now())))? {
                drain(ear)?;
            }
            board.call();
        }
    }
}

/// Takes everything that came in; whether any of it concerns storage.
fn drain(ear: &Uevents) -> io::Result<bool> {
    let mut concerned = false;
    loop {
        match ear.next() {
            Ok(Received::Event(event)) => concerned |= event.concerns_storage(),
            // What of it was lost may have been the one that mattered.
            Ok(Received::Overrun) => concerned = true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(concerned),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel announces anew whatever `uevent` in sysfs is told to (Documentation/ABI/testing/sysfs-uevent).
    #[tokio::test]
    async fn what_the_kernel_says_of_a_pci_function_is_a_call_for_a_look() {
        let mut functions = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten();
        let function = functions.next().and_then(Result::ok).map(|it| it.path());
        let missing = function.is_none().then_some("this machine has no PCI");
        if !gate::open("uevents", missing) || !gate::uevents(function.as_deref().unwrap()) {
            return;
        }
        let board = Board::default();
        let mut called = board.called();
        listen(board);
        std::fs::write(function.unwrap().join("uevent"), "change").unwrap();
        called.changed().await.unwrap();
    }
}
