//! Limits of open files: each connection of a node is an open file.

use daemon::accept::Limits;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Largest number of open files from which the limits of connections are computed. It suffices for more nodes than any
/// machine has.
const MOST_FILES: usize = 65_536;

/// Raises the soft limit to the hard limit. The usual soft limit of 1024 protects programs that use select(2); the
/// coordinator does not use it.
pub(crate) fn raise_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        log::warn!(error:%; "raise the limit of open files");
    }
}

/// Returns the limits for connections over TCP. The process also needs files for its store, its API and its sockets.
pub(crate) fn tcp_connections() -> Limits {
    let files = soft_limit();
    limits(files / 4 * 3, files / 4)
}

/// Returns the limits for connections from this host.
pub(crate) fn local_connections() -> Limits {
    let files = soft_limit();
    limits(files / 8, files / 16)
}

fn limits(connections: usize, pending: usize) -> Limits {
    let remedy =
        "raise the limit of open files (LimitNOFILE), unless clients leave connections behind";
    Limits { connections, pending, first_request: Limits::FIRST_REQUEST, remedy }
}

/// Returns the soft limit of open files.
fn soft_limit() -> usize {
    // If the limit cannot be read, takes the default of Linux.
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    usize::try_from(files).unwrap_or(MOST_FILES).min(MOST_FILES)
}
