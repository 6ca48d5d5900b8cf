//! Makes the names of a run's objects, and checks whether Kubernetes accepts them.

use thiserror::Error;

/// Maximum characters of a DNS label, and of the value of a Kubernetes label.
const MAX_LABEL: usize = 63;

/// A name that Kubernetes refuses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameFault {
    /// The Service of a run has the workflow's name.
    #[error(
        "workflow {0:?} cannot run containers: its Service gets the workflow's name, which must begin with a letter and have only a-z, 0-9 and -, at most 63 characters; give the workflow such a name"
    )]
    Workflow(String),
    /// A host of a run has its rabbit's name.
    #[error(
        "rabbit {0:?} cannot run containers: its name is a host name in the containers, which must have only a-z, 0-9 and -, at most 63 characters"
    )]
    Rabbit(String),
    /// Hosts of an MPI run are named after its Service, which is named after the workflow.
    #[error(
        "workflow {service} cannot run MPI: {name} has {length} characters, and at most 63 are possible; give the workflow a shorter name"
    )]
    Mpi {
        service: String,
        /// The longest host name.
        name: String,
        /// Number of characters of the name.
        length: usize,
    },
    /// A Job is named after the workflow and the rabbit.
    #[error(
        "containers of workflow {workflow} on {rabbit} cannot be named: {workflow}-{rabbit} has {length} characters, and at most 63 are possible; give the workflow a shorter name"
    )]
    Job {
        workflow: String,
        rabbit: String,
        /// Number of characters of the name.
        length: usize,
    },
}

/// Returns the name of the Job on a rabbit.
#[must_use]
pub fn job(workflow: &str, rabbit: &str) -> String {
    format!("{workflow}-{rabbit}")
}

/// Returns the name that a device's PersistentVolume and PersistentVolumeClaim share. The name has four parts: the
/// workflow's uid (because PersistentVolumes are in no namespace), the directive of the storage, the rabbit, and the
/// index of the device on the rabbit.
#[must_use]
pub fn volume(workflow_uid: &str, directive: usize, rabbit: &str, place: usize) -> String {
    format!("{workflow_uid}-{directive}-{rabbit}-{place}")
}

/// Returns the name of the Service of a copy by MPI; `directive` is the index of the copy's directive. The Service of a
/// `container` directive has the workflow's name.
#[must_use]
pub fn copy(workflow: &str, directive: usize) -> String {
    format!("{workflow}-copy{directive}")
}

/// Returns the name of the worker on the rabbit with this index in the run. The worker's Job and host have this name.
#[must_use]
pub fn worker(service: &str, index: usize) -> String {
    format!("{service}-worker-{index}")
}

/// Returns the name of the launcher. The launcher's Job and host have this name.
#[must_use]
pub fn launcher(service: &str) -> String {
    format!("{service}-launcher")
}

/// Checks the host names of an MPI run of this Service on this number of rabbits.
///
/// # Errors
/// When a host name is too long.
pub fn check_mpi(service: &str, rabbits: usize) -> Result<(), NameFault> {
    let last = worker(service, rabbits.saturating_sub(1));
    let longest = [last, launcher(service)].into_iter().max_by_key(String::len);
    match longest.filter(|name| name.len() > MAX_LABEL) {
        None => Ok(()),
        Some(name) => Err(NameFault::Mpi { service: service.to_owned(), length: name.len(), name }),
    }
}

/// Checks the name of a workflow with containers.
///
/// # Errors
/// When the workflow's name is no valid name of a Service.
pub fn check_workflow(workflow: &str) -> Result<(), NameFault> {
    let begins = workflow.starts_with(|first: char| first.is_ascii_lowercase());
    if begins && is_label(workflow) {
        Ok(())
    } else {
        Err(NameFault::Workflow(workflow.to_owned()))
    }
}

/// Checks the names of the host and of the Job on one rabbit.
///
/// # Errors
/// When the host name is no DNS label, or the Job's name is too long.
pub fn check_rabbit(workflow: &str, rabbit: &str) -> Result<(), NameFault> {
    if !is_label(rabbit) {
        return Err(NameFault::Rabbit(rabbit.to_owned()));
    }
    let length = job(workflow, rabbit).len();
    if length <= MAX_LABEL {
        return Ok(());
    }
    Err(NameFault::Job { workflow: workflow.to_owned(), rabbit: rabbit.to_owned(), length })
}

/// Returns whether a text is a DNS label (RFC 1123).
#[must_use]
pub fn is_label(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty()
        && text.len() <= MAX_LABEL
        && text.chars().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_workflow_accepts_only_names_that_a_service_may_have() {
        for name in ["w", "fluxjob-123456789012345678", &"a".repeat(63)] {
            assert_eq!(check_workflow(name), Ok(()), "{name}");
        }
        for name in ["", "1w", "w.x", "W", "w-", "-w", &"a".repeat(64)] {
            assert_eq!(check_workflow(name), Err(NameFault::Workflow(name.to_owned())));
        }
    }

    #[test]
    fn check_rabbit_refuses_host_names_that_are_not_labels_and_job_names_that_are_too_long() {
        assert_eq!(check_rabbit("w", "rabbit-1"), Ok(()));
        assert_eq!(check_rabbit("w", "0"), Ok(()), "a host's name may begin with a digit");
        let error = |rabbit: &str| check_rabbit("w", rabbit).unwrap_err().to_string();
        assert!(error("r.site").contains("rabbit \"r.site\""));
        assert_eq!(check_rabbit("w", &"r".repeat(61)), Ok(()));
        assert!(error(&"r".repeat(62)).contains("has 64 characters, and at most 63 are possible"));
    }
}
