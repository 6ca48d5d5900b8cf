//! Converts errors of the API into failures of a verb.

use cli::Exit;
pub(crate) use cli::Failure;
use kube::Error as KubeError;

/// Converts a request that the API refused or did not answer.
pub(crate) fn from_refused(refused: &workload::Refused) -> Failure {
    api(refused.what.clone(), &refused.source)
}

/// Converts the API's error on an attempt to do `what`.
pub(crate) fn api(what: impl Into<String>, error: &KubeError) -> Failure {
    if let KubeError::SerdeError(_) = error {
        return Failure::new(Exit::Failed, what)
            .because(error)
            .remedy("this version of warren does not understand the API's answer: use the version of the coordinator");
    }
    if let KubeError::BuildRequest(_) | KubeError::HttpError(_) = error {
        return Failure::new(Exit::Usage, what).because(error);
    }
    let KubeError::Api(status) = error else {
        return Failure::unreachable(
            what,
            error,
            "start the coordinator with `systemctl start warren-coordinator`, or name another API with --server or --kubeconfig",
        );
    };
    let (exit, remedy) = match status.code {
        400 | 413 | 415 | 422 => (Exit::Usage, None),
        401 | 403 => {
            (Exit::Failed, Some("run as root or as the coordinator's user, or use its kubeconfig"))
        }
        409 => (
            Exit::Retryable,
            Some(
                "another client changed the object: read it again with `warren get`; a file with metadata.resourceVersion changes that version only",
            ),
        ),
        429 | 500..=599 => (Exit::Retryable, Some("try again; see the coordinator's log")),
        _ => (Exit::Failed, None),
    };
    let mut failure = Failure::new(exit, what);
    let message = if status.message.is_empty() { &status.reason } else { &status.message };
    failure.add_cause(message.clone());
    match remedy {
        Some(remedy) => failure.remedy(remedy),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn answer(code: u16, message: &str) -> KubeError {
        KubeError::Api(Box::new(Status { code, message: message.to_owned(), ..Status::default() }))
    }

    #[test]
    fn status_codes_become_exit_statuses() {
        for (code, exit) in [
            (422, Exit::Usage),
            (409, Exit::Retryable),
            (503, Exit::Retryable),
            (404, Exit::Failed),
        ] {
            assert_eq!(api("x", &answer(code, "")).exit, exit, "{code}");
        }
    }

    #[test]
    fn the_remedy_for_an_unreachable_api_starts_the_coordinator() {
        let error = KubeError::Service("connect /run/x: No such file".into());
        let failure = api("list nodes", &error);
        assert_eq!(failure.exit, Exit::Unreachable);
        let text = failure.text();
        assert!(text.starts_with("list nodes: ") && text.contains("systemctl start"), "{text}");
        assert_eq!(text.matches("No such file").count(), 1, "{text}");
    }
}
