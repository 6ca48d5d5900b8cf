//! Commands on the Lustre management service of this node, which has no interface but its tools.

use std::time::Duration;

use super::cmd::Cmd;
use crate::host::CommandError;

/// What `lctl erase_lcfg` says of a name that the service does not have (any more): the ioctl's ENOENT.
const NOT_THERE: &str = "OBD_IOC_LCFG_ERASE failed: No such file or directory";

/// What it says before that where the service cannot be reached: without Lustre's modules, or without the service, the
/// same ENOENT follows and says nothing about the name.
const NOT_ASKED: [&str; 2] = ["opening /dev/", "must be run on the MGS"];

/// Runs a site's line in a shell.
///
/// # Errors
/// When it cannot be started, fails, or outlives `deadline`.
pub fn run(line: &str, deadline: Duration) -> Result<(), CommandError> {
    Cmd::shell(line).run(deadline)
}

/// Makes the service forget a file system, by the site's `command` with the name after it (lctl(8), `erase_lcfg`). An
/// unknown name is forgotten already; a service that was not reached forgets nothing.
///
/// # Errors
/// As [`run`]; the service may still know the name then.
pub fn erase(command: &str, fs_name: &str, deadline: Duration) -> Result<(), CommandError> {
    match run(&format!("{command} {fs_name}"), deadline) {
        Err(CommandError::Failed { stderr, .. }) if is_forgotten(&stderr) => Ok(()),
        ended => ended,
    }
}

fn is_forgotten(stderr: &str) -> bool {
    stderr.contains(NOT_THERE) && !NOT_ASKED.iter().any(|words| stderr.contains(words))
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

    #[test]
    fn a_service_that_was_not_there_to_be_asked_has_erased_nothing() {
        let words = [
            "opening /dev/obd failed: No such file or directory",
            "hint: the kernel modules may not be loaded",
            "This command must be run on the MGS.",
            "error: erase_lcfg: OBD_IOC_LCFG_ERASE failed: No such file or directory",
        ];
        for said in [&words[..], &words[2..], &[words[0], words[3]]] {
            let line = format!("printf '%s\\n' '{}' >&2; exit 2 #", said.join("' '"));
            let error = erase(&line, "aaaaaaab", PATIENCE).unwrap_err().to_string();
            assert!(error.contains(said[0]), "{error}");
        }
    }
}
