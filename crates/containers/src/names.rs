//! Names of the objects of a run, and whether Kubernetes takes them.

use thiserror::Error;

/// The longest label of a domain name, and the longest value of a label of Kubernetes.
const LABEL: usize = 63;

/// A name that Kubernetes refuses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameFault {
    /// The workflow's name is that of a Service.
    #[error(
        "workflow {0:?} cannot run containers: its name is that of a Service, which begins with a letter, has a-z, 0-9 and - and at most 63 characters; give the workflow such a name"
    )]
    Workflow(String),
    /// A rabbit's name is that of a host.
    #[error(
        "rabbit {0:?} cannot run containers: its name is a host name in them, which has a-z, 0-9 and - and at most 63 characters"
    )]
    Rabbit(String),
    /// Hosts of MPI are named after the workflow.
    #[error(
        "workflow {workflow} cannot run MPI: {name} has {length} characters and may have 63; give the workflow a shorter name"
    )]
    Mpi {
        /// The workflow.
        workflow: String,
        /// The longest name.
        name: String,
        /// Its characters.
        length: usize,
    },
    /// Both together are the name of a Job.
    #[error(
        "containers of workflow {workflow} on {rabbit} cannot be named: {workflow}-{rabbit} has {length} characters and may have 63; give the workflow a shorter name"
    )]
    Job {
        /// The workflow.
        workflow: String,
        /// The rabbit.
        rabbit: String,
        /// Characters of the name.
        length: usize,
    },
}

/// Name of the Job on a rabbit.
#[must_use]
pub fn job(workflow: &str, rabbit: &str) -> String {
    format!("{workflow}-{rabbit}")
}

/// Name of the PersistentVolume of a rabbit's device, and of its claim: the storage of this directive, and the place of the device
/// among the rabbit's. PersistentVolumes of all namespaces share their names, so it begins with the workflow's uid.
#[must_use]
pub fn volume(workflow_uid: &str, directive: usize, rabbit: &str, place: usize) -> String {
    format!("{workflow_uid}-{directive}-{rabbit}-{place}")
}

/// Name of the Job of the worker on the rabbit at this place, and of its host.
#[must_use]
pub fn worker(workflow: &str, index: usize) -> String {
    format!("{workflow}-worker-{index}")
}

/// Name of the Job of the launcher, and of its host.
#[must_use]
pub fn launcher(workflow: &str) -> String {
    format!("{workflow}-launcher")
}

/// Checks the names of MPI on so many rabbits.
///
/// # Errors
/// When a host cannot have one.
pub fn check_mpi(workflow: &str, rabbits: usize) -> Result<(), NameFault> {
    let last = worker(workflow, rabbits.saturating_sub(1));
    let longest = [last, launcher(workflow)].into_iter().max_by_key(String::len);
    match longest.filter(|name| name.len() > LABEL) {
        None => Ok(()),
        Some(name) => {
            Err(NameFault::Mpi { workflow: workflow.to_owned(), length: name.len(), name })
        }
    }
}

/// Checks the name of a workflow with containers.
///
/// # Errors
/// When no Service can have it.
pub fn check_workflow(workflow: &str) -> Result<(), NameFault> {
    let begins = workflow.starts_with(|first: char| first.is_ascii_lowercase());
    if begins && is_label(workflow) {
        Ok(())
    } else {
        Err(NameFault::Workflow(workflow.to_owned()))
    }
}

/// Checks the names on one rabbit.
///
/// # Errors
/// When no host or no Job can have them.
pub fn check_rabbit(workflow: &str, rabbit: &str) -> Result<(), NameFault> {
    if !is_label(rabbit) {
        return Err(NameFault::Rabbit(rabbit.to_owned()));
    }
    let length = job(workflow, rabbit).len();
    if length <= LABEL {
        return Ok(());
    }
    Err(NameFault::Job { workflow: workflow.to_owned(), rabbit: rabbit.to_owned(), length })
}

/// Whether a text is a label of a domain name (RFC 1123).
#[must_use]
pub fn is_label(text: &str) -> bool {
    let is_inner = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-';
    !text.is_empty()
        && text.len() <= LABEL
        && text.chars().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_is_named_as_a_service_may_be() {
        for name in ["w", "fluxjob-123456789012345678", &"a".repeat(63)] {
            assert_eq!(check_workflow(name), Ok(()), "{name}");
        }
        for name in ["", "1w", "w.x", "W", "w-", "-w", &"a".repeat(64)] {
            assert_eq!(check_workflow(name), Err(NameFault::Workflow(name.to_owned())));
        }
    }

    #[test]
    fn a_job_is_named_after_both_and_fits_a_label() {
        assert_eq!(check_rabbit("w", "rabbit-1"), Ok(()));
        assert_eq!(check_rabbit("w", "0"), Ok(()), "a host's name may begin with a digit");
        let told = |rabbit: &str| check_rabbit("w", rabbit).unwrap_err().to_string();
        assert!(told("r.site").contains("rabbit \"r.site\""));
        assert_eq!(check_rabbit("w", &"r".repeat(61)), Ok(()));
        assert!(told(&"r".repeat(62)).contains("has 64 characters and may have 63"));
    }
}
