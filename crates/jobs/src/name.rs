//! Matches job names of workload managers with Workflows. Pure.

use std::collections::BTreeMap;

use api::names::label;
use proto::v1::{JobName, JobState, job_name::Name, job_state::Knowledge};

/// Digits of Flux's base 58, in which Flux writes job ids (RFC 19 of flux-framework).
const DIGITS: &str = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/// Prefix of the Workflow names of Flux jobs; the job's number follows.
const FLUX_WORKFLOW: &str = "fluxjob-";

/// The fields by which a Workflow is identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// `metadata.namespace` of the Workflow.
    pub namespace: &'a str,
    /// `metadata.name` of the Workflow.
    pub name: &'a str,
    /// `spec.jobID` of the Workflow, as text.
    pub job_id: &'a str,
}

impl<'a> Identity<'a> {
    /// Returns the identity of the Workflow that the labels of an object name.
    #[must_use]
    pub fn of_labels(labels: &'a BTreeMap<String, String>) -> Option<Self> {
        let get = |key: &str| labels.get(key).map(String::as_str);
        Some(Self {
            namespace: get(label::WORKFLOW_NAMESPACE)?,
            name: get(label::WORKFLOW_NAME)?,
            job_id: get(label::JOB_ID).unwrap_or_default(),
        })
    }

    /// Returns whether the Workflow has this job name.
    #[must_use]
    pub fn matches(&self, job: &JobName) -> bool {
        match &job.name {
            Some(Name::Workflow(workflow)) => match workflow.split_once('/') {
                Some((namespace, name)) => (namespace, name) == (self.namespace, self.name),
                None => workflow == self.name,
            },
            Some(Name::Job(job)) => self.has_job_id(job),
            None => false,
        }
    }

    /// Returns whether this is the job's Workflow. If `state` is known, only the Workflow that `state` names counts as
    /// the job's; otherwise every Workflow with the job's name does.
    #[must_use]
    pub fn is_of(&self, job: &JobName, state: Option<&JobState>) -> bool {
        match state.filter(|state| state.knowledge() == Knowledge::Known) {
            Some(state) => {
                (self.namespace, self.name) == (state.namespace.as_str(), state.workflow.as_str())
            }
            None => self.matches(job),
        }
    }

    fn has_job_id(&self, job: &str) -> bool {
        if job.is_empty() {
            return false;
        }
        let flux = self.name.strip_prefix(FLUX_WORKFLOW).filter(|rest| is_decimal(rest));
        let by_number = number(job).is_some_and(|number| {
            [Some(self.job_id), flux]
                .into_iter()
                .flatten()
                .any(|own| self::number(own) == Some(number))
        });
        job == self.job_id || job == self.name || by_number
    }
}

/// Returns the job's name for messages, spelled as the caller gave it.
#[must_use]
pub fn describe(job: &JobName) -> String {
    match &job.name {
        Some(Name::Job(job)) => format!("job {job}"),
        Some(Name::Workflow(workflow)) => format!("Workflow {workflow}"),
        None => "no job".to_owned(),
    }
}

/// Parses a job's number, in decimal or in Flux's base 58 (`ƒ2AVx5` or `f2AVx5`).
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
    fn a_job_number_is_read_in_decimal_and_base_58() {
        // The smallest number, the example of Flux' own tests, and the largest number.
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
    fn a_workflow_matches_each_name_of_its_job_and_no_other() {
        let flux = Identity { namespace: "default", name: "fluxjob-1", job_id: "f2" };
        let slurm = Identity { namespace: "default", name: "bb42", job_id: "42" };
        for (own, job_name, found) in [
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
            assert_eq!(own.matches(&job(job_name)), found, "{job_name} and {own:?}");
        }
    }

    #[test]
    fn a_workflow_matches_its_name_and_namespace() {
        let own = Identity { namespace: "default", name: "w", job_id: "7" };
        for (job_name, found) in
            [("w", true), ("default/w", true), ("other/w", false), ("7", false), ("", false)]
        {
            let job_name = JobName { name: Some(Name::Workflow(job_name.to_owned())) };
            assert_eq!(own.matches(&job_name), found, "{job_name:?}");
        }
    }
}
