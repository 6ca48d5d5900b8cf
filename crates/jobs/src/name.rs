//! Names of jobs: what a workload manager calls one, and whether that is a certain Workflow. Pure.

use std::collections::BTreeMap;

use api::names::label;
use proto::v1::{JobName, JobState, job_name::Name, job_state::Knowledge};

/// The digits of Flux's base 58, as Flux writes job ids (RFC 19 of flux-framework).
const DIGITS: &str = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/// Before the number of a job of Flux, and before its Workflow's name.
const FLUX_WORKFLOW: &str = "fluxjob-";

/// What tells one Workflow from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// `metadata.namespace`.
    pub namespace: &'a str,
    /// `metadata.name`.
    pub name: &'a str,
    /// `spec.jobID` as text.
    pub job_id: &'a str,
}

impl<'a> Identity<'a> {
    /// The Workflow that the labels of an object name.
    #[must_use]
    pub fn of_labels(labels: &'a BTreeMap<String, String>) -> Option<Self> {
        let get = |key: &str| labels.get(key).map(String::as_str);
        Some(Self {
            namespace: get(label::WORKFLOW_NAMESPACE)?,
            name: get(label::WORKFLOW_NAME)?,
            job_id: get(label::JOB_ID).unwrap_or_default(),
        })
    }

    /// Whether it is the one that is meant.
    #[must_use]
    pub fn is(&self, meant: &JobName) -> bool {
        match &meant.name {
            Some(Name::Workflow(meant)) => match meant.split_once('/') {
                Some((namespace, name)) => (namespace, name) == (self.namespace, self.name),
                None => meant == self.name,
            },
            Some(Name::Job(meant)) => self.is_job(meant),
            None => false,
        }
    }

    /// Whether this is the job's Workflow: the one that `state` names or, while none is known, one that fits the job's name.
    #[must_use]
    pub fn is_of(&self, job: &JobName, state: Option<&JobState>) -> bool {
        match state.filter(|state| state.knowledge() == Knowledge::Known) {
            Some(state) => {
                (self.namespace, self.name) == (state.namespace.as_str(), state.workflow.as_str())
            }
            None => self.is(job),
        }
    }

    fn is_job(&self, meant: &str) -> bool {
        if meant.is_empty() {
            return false;
        }
        let flux = self.name.strip_prefix(FLUX_WORKFLOW).filter(|rest| is_decimal(rest));
        let by_number = number(meant).is_some_and(|number| {
            [Some(self.job_id), flux]
                .into_iter()
                .flatten()
                .any(|own| self::number(own) == Some(number))
        });
        meant == self.job_id || meant == self.name || by_number
    }
}

/// The name for people, as it was given.
#[must_use]
pub fn shown(job: &JobName) -> String {
    match &job.name {
        Some(Name::Job(job)) => format!("job {job}"),
        Some(Name::Workflow(workflow)) => format!("Workflow {workflow}"),
        None => "no job".to_owned(),
    }
}

/// A job's number, in decimal or in Flux's base 58 (`ƒ2AVx5` or `f2AVx5`).
fn number(text: &str) -> Option<u64> {
    if is_decimal(text) {
        return text.parse().ok();
    }
    let digits = text.strip_prefix('ƒ').or_else(|| text.strip_prefix('f'))?;
    let digit = |character| DIGITS.find(character).and_then(|digit| u64::try_from(digit).ok());
    let add = |sum: u64, character| sum.checked_mul(58)?.checked_add(digit(character)?);
    (!digits.is_empty()).then(|| digits.chars().try_fold(0, add)).flatten()
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(text: &str) -> JobName {
        JobName { name: Some(Name::Job(text.to_owned())) }
    }

    #[test]
    fn a_number_is_read_in_both_ways_of_writing_it() {
        // The smallest, the example that Flux tests its own with, and the largest.
        for (text, expected) in [
            ("0", Some(0)),
            ("ƒ1", Some(0)),
            ("f2", Some(1)),
            ("ƒuzzybunny", Some(6_787_342_413_402_046)),
            ("fjpXCZedGfVQ", Some(u64::MAX)),
            ("fjpXCZedGfVR", None),
            ("18446744073709551616", None),
            ("f2AVx5nQsoRy", Some(501_360_523_054_545_920)),
            ("f", None),
            ("f0", None),
            ("job", None),
            ("", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
    }

    #[test]
    fn a_job_is_found_by_each_of_its_names_and_by_no_other() {
        let flux = Identity { namespace: "default", name: "fluxjob-1", job_id: "f2" };
        let slurm = Identity { namespace: "default", name: "bb42", job_id: "42" };
        for (own, meant, found) in [
            (flux, "f2", true),
            (flux, "ƒ2", true),
            (flux, "1", true),
            (flux, "fluxjob-1", true),
            (flux, "2", false),
            (flux, "", false),
            (slurm, "42", true),
            (slurm, "bb42", true),
            (slurm, "042", true),
            (slurm, "bb4", false),
        ] {
            assert_eq!(own.is(&job(meant)), found, "{meant} and {own:?}");
        }
    }

    #[test]
    fn a_workflow_is_found_by_its_name_and_its_namespace() {
        let own = Identity { namespace: "default", name: "w", job_id: "7" };
        for (meant, found) in
            [("w", true), ("default/w", true), ("other/w", false), ("7", false), ("", false)]
        {
            let meant = JobName { name: Some(Name::Workflow(meant.to_owned())) };
            assert_eq!(own.is(&meant), found, "{meant:?}");
        }
    }
}
