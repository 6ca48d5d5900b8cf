//! Workflows and Computes as they are kept here: the few fields that decide whether a job's mounts are complete.
//!
//! Nothing of them is required: what an object does not say is empty, and its job is not ready.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use api::WorkflowState;
use kube::{ResourceExt, api::DynamicObject};
use proto::v1::Directive;
use serde_json::Value;

use crate::name::Identity;

/// Namespace and name.
pub(crate) type Place = (String, String);

/// Directives that give every compute a mount.
const STORAGE: [&str; 2] = ["jobdw", "persistentdw"];

/// Whether `state` is `than` or follows it. A state that nobody knows follows nothing.
#[must_use]
pub fn has_reached(state: &str, than: &str) -> bool {
    let place = |state: &str| {
        let same = |known: &WorkflowState| known.as_str() == state;
        WorkflowState::ORDER.iter().position(same)
    };
    place(state).zip(place(than)).is_some_and(|(state, than)| state >= than)
}

/// One Workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct Workflow {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) job_id: String,
    pub(crate) desired_state: String,
    pub(crate) state: String,
    pub(crate) ready: bool,
    pub(crate) status: String,
    pub(crate) message: String,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) user_id: u32,
    pub(crate) group_id: u32,
    pub(crate) deleting: bool,
    pub(crate) directives: Vec<Directive>,
}

impl Workflow {
    /// Reads one.
    #[must_use]
    pub fn read(object: &DynamicObject) -> Self {
        let at = |pointer: &str| object.data.pointer(pointer);
        let text =
            |pointer: &str| at(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let id = |pointer: &str| {
            at(pointer).and_then(Value::as_u64).and_then(|id| id.try_into().ok()).unwrap_or(0)
        };
        Self {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
            job_id: match at("/spec/jobID") {
                Some(Value::Number(number)) => number.to_string(),
                _ => text("/spec/jobID"),
            },
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
        }
    }

    pub(crate) fn place(&self) -> Place {
        (self.namespace.clone(), self.name.clone())
    }

    pub(crate) fn identity(&self) -> Identity<'_> {
        Identity { namespace: &self.namespace, name: &self.name, job_id: &self.job_id }
    }
}

/// The computes of one Workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct Computes {
    pub(crate) resource_version: String,
    pub(crate) names: HashSet<String>,
}

impl Computes {
    /// Reads those of one.
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

fn texts(values: Option<&Value>) -> BTreeMap<String, String> {
    let values = values.and_then(Value::as_object).into_iter().flatten();
    values.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

fn storage_directives(directives: Option<&Value>) -> Vec<Directive> {
    let all = directives.and_then(Value::as_array).into_iter().flatten();
    let storage = (0..).zip(all).filter_map(|(index, directive)| {
        let text = directive.as_str()?;
        let command = text.split_whitespace().nth(1)?;
        STORAGE.contains(&command).then(|| Directive { index, text: text.to_owned() })
    });
    storage.collect()
}

/// The directives of which no mount is for.
#[must_use]
pub fn missing(
    directives: &[Directive],
    mounts: impl IntoIterator<Item = Option<u32>>,
) -> Vec<&Directive> {
    let there: BTreeSet<u32> = mounts.into_iter().flatten().collect();
    directives.iter().filter(|directive| !there.contains(&directive.index)).collect()
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
    fn what_decides_is_read_and_what_is_missing_is_empty() {
        let directives = json!([
            "#DW jobdw type=xfs name=a",
            "#DW  container name=c",
            "#DW persistentdw name=p",
            7
        ]);
        let spec = json!({"jobID": 42, "userID": 1050, "groupID": -1, "desiredState": "PreRun", "dwDirectives": directives});
        let read = workflow(&spec, &json!({"ready": true, "env": {"DW_JOB_a": "/mnt", "n": 1}}));
        assert_eq!((read.job_id.as_str(), read.user_id, read.group_id), ("42", 1050, 0));
        assert_eq!(read.directives.iter().map(|one| one.index).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(read.env, BTreeMap::from([("DW_JOB_a".to_owned(), "/mnt".to_owned())]));
        assert_eq!(workflow(&json!({"jobID": "f2"}), &Value::Null).job_id, "f2");
        assert!(!workflow(&Value::Null, &Value::Null).ready);
    }

    #[test]
    fn states_follow_each_other_and_an_unknown_one_follows_none() {
        assert!(has_reached("PreRun", "PreRun") && has_reached("Teardown", "PostRun"));
        assert!(!has_reached("DataIn", "PreRun") && !has_reached("", "Proposal"));
        assert!(!has_reached("Later", "Proposal"));
    }

    #[test]
    fn a_directive_without_a_mount_is_named() {
        let directives: Vec<_> =
            [0, 2].map(|index| Directive { index, text: String::new() }).into();
        assert_eq!(missing(&directives, [Some(2), None])[0].index, 0);
        assert!(missing(&directives, [Some(2), Some(0)]).is_empty());
    }
}
