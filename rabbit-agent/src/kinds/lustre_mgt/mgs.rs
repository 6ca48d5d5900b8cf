//! Runs commands on the Lustre management service of this node: the service has no other interface than its tools.

use std::time::Duration;

use causes::CommandError;
use process::Cmd;

/// Message of `lctl erase_lcfg` when the service does not know the name: the text for the ioctl's ENOENT.
const NOT_THERE: &str = "OBD_IOC_LCFG_ERASE failed: No such file or directory";

/// Messages of `lctl erase_lcfg` when it cannot reach the service, because Lustre's modules or the service are missing.
/// [`NOT_THERE`] follows these messages too, and then does not mean that the service does not know the name.
const NOT_ASKED: [&str; 2] = ["opening /dev/", "must be run on the MGS"];

/// Runs a site's line in a shell.
///
/// # Errors
/// When the command cannot be started, fails, or outlives `deadline`.
pub(super) fn run(line: &str, deadline: Duration) -> Result<(), CommandError> {
    Cmd::shell(line).run(deadline)
}

/// Makes the service forget a file system: runs the site's `command` with the file system's name appended
/// (lctl(8), `erase_lcfg`). Succeeds also when the service does not know the name; fails when the command
/// cannot reach the service.
///
/// # Errors
/// The errors of [`run`]; after an error the service may still know the name.
pub(super) fn erase(command: &str, fs_name: &str, deadline: Duration) -> Result<(), CommandError> {
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
    fn erase_succeeds_for_an_unknown_name_and_returns_other_failures() {
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
    fn erase_fails_when_the_service_is_not_reached() {
        let words = [
            "opening /dev/obd failed: No such file or directory",
            "hint: the kernel modules may not be loaded",
            "This command must be run on the MGS.",
            "error: erase_lcfg: OBD_IOC_LCFG_ERASE failed: No such file or directory",
        ];
        for printed in [&words[..], &words[2..], &[words[0], words[3]]] {
            let line = format!("printf '%s\\n' '{}' >&2; exit 2 #", printed.join("' '"));
            let error = erase(&line, "aaaaaaab", PATIENCE).unwrap_err().to_string();
            assert!(error.contains(printed[0]), "{error}");
        }
    }
}
