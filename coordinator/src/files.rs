//! How many files this process may have open: each node's connection is one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit as far as an administrator lets us. The one that programs start with is for those that use select(2).
pub(crate) fn raise_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        log::warn!(error:%; "raise the limit of open files");
    }
}

/// The limit as it is now.
pub(crate) fn limit() -> u64 {
    // Of every Unix (POSIX, <limits.h>, _POSIX_OPEN_MAX is 20; the kernel starts programs with 1,024).
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft)
}
