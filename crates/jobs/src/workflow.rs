//! The fields of Workflows and Computes that decide whether a job's mounts are complete.
//!
//! No field is required: a missing field is read as empty, and the job counts as not ready.

use std::collections::{BTreeSet, HashMap, HashSet};

use api::WorkflowState;
use kube::{ResourceExt, api::DynamicObject};
use proto::v1::job_state::Knowledge;
use proto::v1::{Directive, JobState};
use serde_json::Value;

use crate::name::Identity;

/// Namespace and name of a Workflow and its Computes.
pub(crate) type WorkflowKey = (String, String);

/// Commands of directives that give every compute a mount.
const STORAGE: [&str; 2] = ["jobdw", "persistentdw"];

/// Returns whether `state` is `than` or follows it. An unknown state follows none.
#[must_use]
pub fn has_reached(state: &str, than: &str) -> bool {
    let position = |state: &str| {
        let same = |known: &WorkflowState| known.as_str() == state;
        WorkflowState::ORDER.iter().position(same)
    };
    position(state).zip(position(than)).is_some_and(|(state, than)| state >= than)
}

#[derive(Clone, Debug, PartialEq)]
pub struct Workflow {
    pub(crate) resource_version: String,
    pub(crate) job_id: String,
    /// The answer about the job, without assignment and mounts, which depend on the node.
    pub(crate) state: JobState,
}

impl Workflow {
    #[must_use]
    pub fn read(object: &DynamicObject) -> Self {
        let at = |pointer: &str| object.data.pointer(pointer);
        let text =
            |pointer: &str| at(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let id = |pointer: &str| {
            at(pointer).and_then(Value::as_u64).and_then(|id| id.try_into().ok()).unwrap_or(0)
        };
        let state = JobState {
            knowledge: Knowledge::Known.into(),
            workflow: object.name_any(),
            namespace: object.namespace().unwrap_or_default(),
            uid: object.uid().unwrap_or_default(),
            desired_state: text("/spec/desiredState"),
            state: text("/status/state"),
            ready: at("/status/ready").and_then(Value::as_bool).unwrap_or(false),
            status: text("/status/status"),
            message: text("/status/message"),
            env: texts(at("/status/env")),
            user_id: id("/spec/userID"),
            group_id: id("/spec/groupID"),
            deleting: object.metadata.deletion_timestamp.is_some(),
            directives: storage_directives(at("/spec/dwDirectives")),
            ..JobState::default()
        };
        let job_id = match at("/spec/jobID") {
            Some(Value::Number(number)) => number.to_string(),
            _ => text("/spec/jobID"),
        };
        let resource_version = object.resource_version().unwrap_or_default();
        Self { resource_version, job_id, state }
    }

    pub(crate) fn key(&self) -> WorkflowKey {
        (self.state.namespace.clone(), self.state.workflow.clone())
    }

    pub(crate) fn identity(&self) -> Identity<'_> {
        let JobState { namespace, workflow: name, .. } = &self.state;
        Identity { namespace, name, job_id: &self.job_id }
    }
}

/// The computes of one Workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct Computes {
    pub(crate) resource_version: String,
    pub(crate) names: HashSet<String>,
}

impl Computes {
    #[must_use]
    pub fn read(object: &DynamicObject) -> Self {
        let data = object.data.get("data").and_then(Value::as_array);
        let name = |compute: &Value| compute.get("name").and_then(Value::as_str).map(str::to_owned);
        Self {
            resource_version: object.resource_version().unwrap_or_default(),
            names: data.into_iter().flatten().filter_map(name).collect(),
        }
    }
}

fn texts(values: Option<&Value>) -> HashMap<String, String> {
    let values = values.and_then(Value::as_object).into_iter().flatten();
    values.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

fn storage_directives(directives: Option<&Value>) -> Vec<Directive> {
    let lines = directives.and_then(Value::as_array).into_iter().flatten();
    let storage = (0..).zip(lines).filter_map(|(index, directive)| {
        let text = directive.as_str()?;
        let command = text.split_whitespace().nth(1)?;
        STORAGE.contains(&command).then(|| Directive { index, text: text.to_owned() })
    });
    storage.collect()
}

/// Returns the directives that have no mount. `mounts` has the directive's index of each mount.
#[must_use]
pub fn directives_without_mount(
    directives: &[Directive],
    mounts: impl IntoIterator<Item = Option<u32>>,
) -> Vec<&Directive> {
    let mounted: BTreeSet<u32> = mounts.into_iter().flatten().collect();
    directives.iter().filter(|directive| !mounted.contains(&directive.index)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workflow(spec: &Value, status: &Value) -> Workflow {
        let object = json!({
            "metadata": {"name": "w", "namespace": "default", "uid": "u", "resourceVersion": "7"},
            "spec": spec, "status": status,
        });
        Workflow::read(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn missing_fields_are_read_as_empty() {
        let directives = json!([
            "#DW jobdw type=xfs name=a",
            "#DW  container name=c",
            "#DW persistentdw name=p",
            7
        ]);
        let spec = json!({"jobID": 42, "userID": 1050, "groupID": -1, "desiredState": "PreRun", "dwDirectives": directives});
        let read = workflow(&spec, &json!({"ready": true, "env": {"DW_JOB_a": "/mnt", "n": 1}}));
        let state = &read.state;
        assert_eq!((read.job_id.as_str(), state.user_id, state.group_id), ("42", 1050, 0));
        assert_eq!(
            state.directives.iter().map(|directive| directive.index).collect::<Vec<_>>(),
            [0, 2]
        );
        assert_eq!(state.env, HashMap::from([("DW_JOB_a".to_owned(), "/mnt".to_owned())]));
        assert_eq!(workflow(&json!({"jobID": "f2"}), &Value::Null).job_id, "f2");
        assert!(!workflow(&Value::Null, &Value::Null).state.ready);
    }

    #[test]
    fn an_unknown_state_follows_none() {
        assert!(has_reached("PreRun", "PreRun") && has_reached("Teardown", "PostRun"));
        assert!(!has_reached("DataIn", "PreRun") && !has_reached("", "Proposal"));
        assert!(!has_reached("Later", "Proposal"));
    }

    #[test]
    fn directives_without_a_mount_are_found() {
        let directives: Vec<_> =
            [0, 2].map(|index| Directive { index, text: String::new() }).into();
        assert_eq!(directives_without_mount(&directives, [Some(2), None])[0].index, 0);
        assert!(directives_without_mount(&directives, [Some(2), Some(0)]).is_empty());
    }
}
