//! Explains why the kernel refused a mount.

use std::io;

use causes::CommandError;
use storage::host::StepError;

use super::kernel_log::KernelLog;

/// Adds the reason of a refused mount to its error: the lines of the kernel's log about this source, or the usual cause
/// if the log has no such line. The errno alone does not show the reason: EINVAL may mean that a file system with the
/// same UUID is mounted, and EUCLEAN does not say what is damaged.
pub(super) fn explain(error: StepError, log: KernelLog, source: &str) -> StepError {
    let lines = log.lines_about(source);
    let reason = |usual: Option<&str>| match &lines[..] {
        [] => usual.map(str::to_owned),
        lines => Some(format!("the kernel: {}", lines.join("; "))),
    };
    match error {
        StepError::System { call, target, source } => {
            let target = match reason(usual_cause(&source)) {
                Some(reason) => format!("{target} ({reason})"),
                None => target,
            };
            StepError::System { call, target, source }
        }
        StepError::Command(CommandError::Failed { command, status, stderr }) => {
            let more = reason(None).map(|reason| format!("{stderr} ({reason})"));
            let stderr = more.unwrap_or(stderr);
            StepError::Command(CommandError::Failed { command, status, stderr })
        }
        other => other,
    }
}

/// Returns the usual cause of an errno of mount(2), for use when the kernel's log has no line about the source.
fn usual_cause(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::EINVAL => Some(
            "usual causes: a file system with this UUID is mounted already, or this kernel does not know an option or a feature of it",
        ),
        libc::EUCLEAN => Some("usual cause: it is damaged; check it with xfs_repair -n"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_cause_names_the_cause_of_einval_and_euclean_only() {
        let cause = |errno| usual_cause(&io::Error::from_raw_os_error(errno));
        assert!(cause(libc::EINVAL).unwrap().contains("UUID"));
        assert!(cause(libc::EUCLEAN).unwrap().contains("xfs_repair"));
        assert_eq!(cause(libc::ENODEV), None);
    }
}
