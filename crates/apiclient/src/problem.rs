//! Why a kind cannot be watched, in words for the person who can mend it.

use kube::{Error as ApiError, api::ApiResource, core::Status, runtime::watcher};

use crate::plain::plain_watch;

/// What is wrong with a watch, and the remedy where one is known.
#[must_use]
pub fn watch_problem(resource: &ApiResource, error: &watcher::Error) -> String {
    let (kind, version) = (&resource.kind, &resource.version);
    let crd = format!("{}.{}", resource.plural, resource.group);
    match status(error).map_or(0, |status| status.code) {
        404 => format!("the API does not know {kind} {version}: install the CRD {crd}"),
        401 => format!(
            "the API does not accept this program's token or certificate for {kind}: {}",
            plain_watch(error)
        ),
        403 => format!(
            "the API does not let this program watch {kind}: grant it get, list and watch on {crd}: {}",
            plain_watch(error)
        ),
        _ => format!("watch {kind}: {}", plain_watch(error)),
    }
}

fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => match cause {
            ApiError::Api(status) => Some(status),
            _ => None,
        },
        watcher::Error::WatchError(status) => Some(status),
        watcher::Error::NoResourceVersion => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(code: u16) -> String {
        let resource = ApiResource {
            group: "dataworkflowservices.github.io".to_owned(),
            version: "v1alpha7".to_owned(),
            api_version: "dataworkflowservices.github.io/v1alpha7".to_owned(),
            kind: "ClientMount".to_owned(),
            plural: "clientmounts".to_owned(),
        };
        let status =
            Status { code, message: "the server's own words".to_owned(), ..Status::default() };
        let error = watcher::Error::InitialListFailed(ApiError::Api(Box::new(status)));
        watch_problem(&resource, &error)
    }

    #[test]
    fn each_refusal_names_its_remedy() {
        for (code, told) in [
            (404, "install the CRD clientmounts.dataworkflowservices.github.io"),
            (401, "does not accept this program's token"),
            (403, "grant it get, list and watch on clientmounts.dataworkflowservices.github.io"),
            (500, "watch ClientMount: list: the server's own words"),
        ] {
            assert!(problem(code).contains(told), "{}", problem(code));
        }
    }
}
