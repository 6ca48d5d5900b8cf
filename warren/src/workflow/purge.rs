//! How to get rid of a workflow, whatever state it is in: a plan that is shown before anything is done. Pure.

use api::Workflow;
use kube::ResourceExt;
use serde::Serialize;

use workload::{Member, Objects, is_ending};

/// One step. They are taken in this order; after each, what happened by itself is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "step")]
pub(crate) enum Step {
    /// Ask for Teardown, and wait as long as the caller is patient.
    TearDown { workflow: String },
    /// Delete the workflow.
    DeleteWorkflow { workflow: String },
    /// Delete an object whose workflow is gone.
    Delete { object: String, namespace: String },
    /// Take the finalizers off an object that is being deleted.
    Release {
        object: String,
        namespace: String,
        finalizers: Vec<String>,
        /// What may stay behind, unseen by any object.
        left_behind: String,
    },
}

/// The order in which objects go: what uses before what is used.
const ORDER: [&str; 8] = [
    "NnfDataMovement",
    "NnfAccess",
    "ClientMount",
    "NnfStorage",
    "NnfNodeStorage",
    "NnfNodeBlockStorage",
    "Servers",
    "DirectiveBreakdown",
];

/// What is to be done. `force` takes finalizers off: the nodes then keep what nobody removed.
pub(crate) fn plan(objects: &Objects, force: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Some(workflow) = &objects.workflow {
        let name = workflow.name_any();
        if !is_ending(workflow) {
            steps.push(Step::TearDown { workflow: name.clone() });
        }
        if workflow.metadata.deletion_timestamp.is_none() {
            steps.push(Step::DeleteWorkflow { workflow: name });
        }
    }
    let rank =
        |member: &Member| ORDER.iter().position(|kind| *kind == member.kind).unwrap_or(ORDER.len());
    let mut members: Vec<&Member> = objects.others.iter().collect();
    members.sort_by_key(|member| rank(member));
    // What is used goes only after all that uses it: a rabbit that deletes storage takes it away from nodes that have it mounted.
    let first = members.first().map(|member| rank(member));
    for member in members {
        let is_next = objects.workflow.is_none() && Some(rank(member)) == first;
        let (object, namespace) = (member.label(), member.object.namespace().unwrap_or_default());
        if member.object.metadata.deletion_timestamp.is_none() && (force || is_next) {
            steps.push(Step::Delete { object: object.clone(), namespace: namespace.clone() });
        }
        let finalizers = member.object.finalizers().to_vec();
        if force && !finalizers.is_empty() {
            steps.push(Step::Release {
                object,
                namespace,
                finalizers,
                left_behind: left_behind(member),
            });
        }
    }
    if force && let Some(workflow) = &objects.workflow {
        steps.extend(release_workflow(workflow));
    }
    steps
}

fn release_workflow(workflow: &Workflow) -> Option<Step> {
    let finalizers = workflow.finalizers().to_vec();
    (!finalizers.is_empty()).then(|| Step::Release {
        object: format!("workflow/{}", workflow.name_any()),
        namespace: workflow.namespace().unwrap_or_default(),
        finalizers,
        left_behind: "nothing, when all objects above are gone".to_owned(),
    })
}

fn left_behind(member: &Member) -> String {
    let node = member.object.namespace().unwrap_or_default();
    match member.kind.as_str() {
        "ClientMount" => format!("mounts on {node}, until its agent starts again and cleans up"),
        "NnfNodeStorage" => format!("volume groups and file systems on the drives of {node}"),
        "NnfNodeBlockStorage" => format!("namespaces on the drives of {node}, and their capacity"),
        _ => "nothing on a node".to_owned(),
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TearDown { workflow } => {
                write!(f, "ask the workflow {workflow} for Teardown, and wait for it")
            }
            Self::DeleteWorkflow { workflow } => write!(f, "delete the workflow {workflow}"),
            Self::Delete { object, namespace } => write!(f, "delete {object} in {namespace}"),
            Self::Release { object, namespace, finalizers, left_behind } => {
                write!(
                    f,
                    "take {} off {object} in {namespace}; this may leave behind: {left_behind}",
                    finalizers.join(", ")
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
