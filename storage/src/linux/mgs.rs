//! Commands on the Lustre management service of this node, which has no interface but its tools.

use std::time::Duration;

use super::cmd::Cmd;
use crate::host::CommandError;

/// What `lctl erase_lcfg` says of a name that the service does not have (any more): the ioctl's ENOENT.
const NOT_THERE: &str = "OBD_IOC_LCFG_ERASE failed: No such file or directory";

/// Runs a site's line in a shell.
///
/// # Errors
/// When it cannot be started, fails, or outlives `deadline`.
pub fn run(line: &str, deadline: Duration) -> Result<(), CommandError> {
    Cmd::shell(line).run(deadline).map(drop)
}

/// Makes the service forget a file system, by the site's `command` with the name after it (lctl(8), `erase_lcfg`). One that
/// it does not know is forgotten already.
///
/// # Errors
/// As [`run`]; then it may be known still.
pub fn erase(command: &str, fs_name: &str, deadline: Duration) -> Result<(), CommandError> {
    match run(&format!("{command} {fs_name}"), deadline) {
        Err(CommandError::Failed { stderr, .. }) if stderr.contains(NOT_THERE) => Ok(()),
        ended => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_not_there_is_erased_and_every_other_failure_is_one() {
        let saying = |words: &str| format!("say() {{ echo \"$1: {words}\" >&2; exit 2; }}; say");
        let gone = "error: erase_lcfg: OBD_IOC_LCFG_ERASE failed: No such file or directory";
        erase(&saying(gone), "aaaaaaab", PATIENCE).unwrap();
        let busy = "OBD_IOC_LCFG_ERASE failed: Device or resource busy";
        let error = erase(&saying(busy), "aaaaaaab", PATIENCE).unwrap_err().to_string();
        assert!(error.contains("aaaaaaab: OBD_IOC_LCFG_ERASE failed: Device or"), "{error}");
        assert!(error.contains("exit status: 2"), "{error}");
        erase("test aaaaaaab =", "aaaaaaab", PATIENCE).unwrap();
    }
}
