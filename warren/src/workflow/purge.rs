//! Plans the removal of a workflow from any state. Pure: the user sees the plan before it is carried out.

use api::Workflow;
use kube::ResourceExt;
use serde::Serialize;

use workload::{Member, Objects, is_ending};

/// One step of a removal. After each step the plan is made again, without steps that are no longer needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "step")]
pub(crate) enum Step {
    /// Request Teardown, and wait for it until the timeout.
    TearDown { workflow: String },
    /// Delete the workflow, and wait until it is gone.
    DeleteWorkflow { workflow: String },
    /// Delete an object whose workflow is gone.
    Delete { object: String, namespace: String },
    /// Remove the finalizers of an object that is being deleted.
    Release {
        object: String,
        namespace: String,
        finalizers: Vec<String>,
        /// Resources that may remain without an object.
        left_behind: String,
    },
}

/// The order in which objects are deleted: users before the objects that they use.
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

/// Returns the steps to take. `force` also removes finalizers: then mounts, file systems or namespaces
/// may remain on nodes.
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
    // An object is deleted only after all its users: a rabbit deletes storage even if nodes have it mounted.
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
        left_behind: "nothing, if all objects above are gone".to_owned(),
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
                write!(f, "request Teardown of the workflow {workflow}, and wait for it")
            }
            Self::DeleteWorkflow { workflow } => write!(f, "delete the workflow {workflow}"),
            Self::Delete { object, namespace } => write!(f, "delete {object} in {namespace}"),
            Self::Release { object, namespace, finalizers, left_behind } => {
                write!(
                    f,
                    "remove {} from {object} in {namespace}; this may leave behind: {left_behind}",
                    finalizers.join(", ")
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
