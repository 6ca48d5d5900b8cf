//! How many files this process may have open: each node's connection is one.

use daemon::accept::Limits;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// More nodes than any machine has.
const MOST: usize = 65_536;

/// Raises the limit as far as an administrator lets us. The one that programs start with is for those that use select(2).
pub(crate) fn raise_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        log::warn!(error:%; "raise the limit of open files");
    }
}

/// Nodes and operators elsewhere. The process needs some files for its store, its API and its sockets.
pub(crate) fn tcp_connections() -> Limits {
    let files = limit();
    limits(files / 4 * 3, files / 4)
}

/// What runs on this host.
pub(crate) fn local_connections() -> Limits {
    let files = limit();
    limits(files / 8, files / 16)
}

fn limits(connections: usize, newcomers: usize) -> Limits {
    let remedy =
        "raise the limit of open files (LimitNOFILE), unless clients leave connections behind";
    Limits { connections, newcomers, first_request: Limits::FIRST_REQUEST, remedy }
}

/// The limit as it is now.
fn limit() -> usize {
    // Of every Unix (POSIX, <limits.h>, _POSIX_OPEN_MAX is 20; the kernel starts programs with 1,024).
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    usize::try_from(files).unwrap_or(MOST).min(MOST)
}
