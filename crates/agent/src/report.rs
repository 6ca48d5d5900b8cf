//! Turns an outcome into `ClientMount.status`. This module does no I/O.

use std::collections::BTreeMap;

use api::{ClientMountStatus, ErrorType, ResourceError, client_mount::ClientMountInfoStatus};
use causes::{escaped, shortened};
use proto::limits::ERROR_TEXT;
use storage::desired::NodeName;

use crate::{
    desired::Goal,
    error::rank,
    reconcile::{Failed, MountOutcome, Outcome},
};

/// Returns the status for an outcome: one entry for each mount, and an error if anything failed.
pub fn status(node: &NodeName, outcome: &Outcome) -> ClientMountStatus {
    let state = outcome.goal.state();
    let is_ready = |mount: &MountOutcome| *mount == MountOutcome::Ready;
    // Of the status, Flux and the Go controllers read only the entries for the mounts. Once all entries say unmounted
    // and ready, the controllers withdraw the access to the devices. A mount of an earlier version of the object has no
    // entry: while such a mount exists, all entries are reported as not ready.
    let has_old_mount = outcome.goal == Goal::Unmounted
        && !outcome.failures.is_empty()
        && outcome.mounts.iter().all(is_ready);
    let mounts = outcome.mounts.iter().map(|mount| ClientMountInfoStatus {
        state: state.clone(),
        ready: is_ready(mount) && !has_old_mount,
    });
    ClientMountStatus {
        mounts: mounts.collect(),
        all_ready: outcome.is_done(),
        error: error(node, &outcome.failures),
    }
}

/// Combines all failures in one error, which names every path and has the severity of the worst failure.
pub fn error(node: &NodeName, failures: &[Failed]) -> Option<ResourceError> {
    let worst = failures
        .iter()
        .map(|failed| &failed.failure)
        .max_by_key(|failure| rank(&failure.severity))?;
    let user = group_by_text(failures, |failed| failed.failure.user.clone());
    let debug = group_by_text(failures, |failed| failed.failure.debug.clone());
    // Names of processes and output of tools may contain any characters, control characters too.
    let bounded = |text: String| shortened(escaped(&text, "\n\t"), ERROR_TEXT);
    Some(ResourceError {
        debug_message: bounded(format!("mount/unmount failed: {debug}")),
        severity: worst.severity.clone(),
        error_type: error_type(failures, &worst.error_type),
        user_message: Some(bounded(format!("{node}: {user}"))),
    })
}

/// Returns a text for the log if an object was unmounted without its profile, or without some lines of the profile.
/// The status does not report these lines: an error in the status would stop the workflow for good, because the lines
/// can never run.
pub fn unreadable(outcome: &Outcome) -> Option<String> {
    let lines = || group_by_text(&outcome.unreadable, |failed| failed.failure.debug.clone());
    (outcome.is_done() && !outcome.unreadable.is_empty())
        .then(|| format!("unmounted without these command lines of the profile: {}", lines()))
}

/// Returns the type of the combined error: `Internal` if any failure is internal, otherwise the type of the worst
/// failure.
fn error_type(failures: &[Failed], worst: &ErrorType) -> ErrorType {
    if failures.iter().any(|failed| failed.failure.error_type == ErrorType::Internal) {
        ErrorType::Internal
    } else {
        worst.clone()
    }
}

/// Groups failures by their text, as `cause (path, path); cause (path)`: the text of sixteen equal
/// failures appears only once.
fn group_by_text(failures: &[Failed], text: impl Fn(&Failed) -> String) -> String {
    let mut order = Vec::new();
    let mut paths: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for failed in failures {
        let text = text(failed);
        let of_text = paths.entry(text.clone()).or_insert_with(|| {
            order.push(text.clone());
            Vec::new()
        });
        of_text.extend(failed.path.as_deref().filter(|path| !text.contains(*path)));
    }
    let parts =
        order.into_iter().map(|text| match paths.get(&text).filter(|paths| !paths.is_empty()) {
            Some(paths) => format!("{text} ({})", paths.join(", ")),
            None => text,
        });
    parts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use api::{Severity, client_mount::MountState};
    use controller::Retry;

    use super::*;
    use crate::error::Failure;

    fn node() -> NodeName {
        "compute-02".parse().unwrap()
    }

    fn failed(path: &str, severity: Severity, text: &str) -> Failed {
        let failure = Failure {
            error_type: ErrorType::Internal,
            severity,
            user: text.into(),
            debug: format!("unable to mount file system: {text}"),
            retry: Retry::Later,
            holders: Box::default(),
        };
        Failed { path: Some(path.into()), failure }
    }

    #[test]
    fn a_done_object_has_one_ready_entry_per_mount_and_no_error() {
        let outcome = Outcome {
            goal: Goal::Unmounted,
            mounts: vec![MountOutcome::Ready; 2],
            failures: Vec::new(),
            unreadable: Vec::new(),
        };
        let json = serde_json::to_value(status(&node(), &outcome)).unwrap();
        let entry = serde_json::json!({ "state": "unmounted", "ready": true });
        assert_eq!(json, serde_json::json!({ "mounts": [entry, entry], "allReady": true }));
    }

    /// The coordinator refuses a status that is larger than its limit. The status must stay below the limit, even with
    /// the largest permitted number of mounts.
    #[test]
    fn texts_of_thousands_of_failures_do_not_make_a_status_too_large() {
        let failures = 20_000;
        let text = "x".repeat(200);
        let fail = |place| {
            failed(&format!("/mnt/nnf/{place}"), Severity::Major, &format!("{place} {text}"))
        };
        let outcome = Outcome {
            goal: Goal::Mounted,
            mounts: vec![MountOutcome::Failed; failures],
            failures: (0..failures).map(fail).collect(),
            unreadable: Vec::new(),
        };
        let status = serde_json::to_vec(&status(&node(), &outcome)).unwrap();
        assert!(status.len() <= proto::limits::STATUS, "{}", status.len());
    }

    #[test]
    fn no_entry_says_unmounted_while_a_mount_of_an_earlier_version_of_the_object_is_left() {
        let outcome = |goal| Outcome {
            goal,
            mounts: vec![MountOutcome::Ready],
            failures: vec![failed("/mnt/nnf/old", Severity::Minor, "busy")],
            unreadable: Vec::new(),
        };
        assert!(!status(&node(), &outcome(Goal::Unmounted)).mounts[0].ready);
        assert!(
            status(&node(), &outcome(Goal::Mounted)).mounts[0].ready,
            "the mount of the new version is ready"
        );
    }

    #[test]
    fn every_failing_mount_is_reported_with_the_worst_severity() {
        let outcome = Outcome {
            goal: Goal::Mounted,
            mounts: vec![MountOutcome::Ready, MountOutcome::Failed, MountOutcome::Failed],
            failures: vec![
                failed("/mnt/nnf/b", Severity::Minor, "busy"),
                failed("/mnt/nnf/c", Severity::Major, "input/output error (os error 5)"),
            ],
            unreadable: Vec::new(),
        };
        let status = status(&node(), &outcome);
        assert_eq!(
            status.mounts.iter().map(|mount| mount.ready).collect::<Vec<_>>(),
            [true, false, false]
        );
        assert_eq!(status.mounts[1].state, MountState::Mounted);
        assert!(!status.all_ready);
        let error = status.error.unwrap();
        assert_eq!(error.severity, Severity::Major);
        let user = error.user_message.unwrap();
        assert_eq!(
            user,
            "compute-02: busy (/mnt/nnf/b); input/output error (os error 5) (/mnt/nnf/c)"
        );
        assert!(
            error
                .debug_message
                .starts_with("mount/unmount failed: unable to mount file system: busy")
        );
    }

    #[test]
    fn mounts_that_fail_alike_are_reported_once() {
        let failures = [
            failed("/a", Severity::Fatal, "no device"),
            failed("/b", Severity::Fatal, "no device"),
        ];
        let user = error(&node(), &failures).unwrap().user_message.unwrap();
        assert_eq!(user, "compute-02: no device (/a, /b)");
    }

    #[test]
    fn a_path_that_the_failures_text_contains_is_not_added_in_parentheses() {
        let user = error(&node(), &[failed("/a", Severity::Fatal, "/a is occupied")])
            .unwrap()
            .user_message
            .unwrap();
        assert_eq!(user, "compute-02: /a is occupied");
    }

    #[test]
    fn the_error_type_is_user_only_if_no_failure_is_internal() {
        let mut wrong = failed("/a", Severity::Fatal, "relative");
        wrong.failure.error_type = ErrorType::User;
        assert_eq!(
            error(&node(), std::slice::from_ref(&wrong)).unwrap().error_type,
            ErrorType::User
        );
        let internal = failed("/b", Severity::Major, "input/output error");
        assert_eq!(error(&node(), &[wrong, internal]).unwrap().error_type, ErrorType::Internal);
    }
}
