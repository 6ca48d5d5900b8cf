//! Writes the part of a workflow's status that is about storage: the breakdowns, and the variables by which the
//! job finds its storage.

use std::collections::BTreeMap;

use api::WorkflowStatus;
use directive::{Command, FileSystem, Jobdw};
use kube::ResourceExt;

use crate::{
    names::{directive_object_name, reference},
    objects::{instance, mount::mount_path, view::View},
};

/// Prefixes of the variables that the engine writes.
const PREFIXES: [&str; 4] = ["DW_JOB", "DW_PERSISTENT", "DW_WORKFLOW_", "NNF_CONTAINER_"];

/// Writes the references to the Computes and the breakdowns. With `container_variables`, also writes these variables and
/// the variables by which the job finds its storage. Removes entries that the engine did not write, because workload managers pass these fields
/// on to the job.
pub(super) fn add_storage(
    view: &View<'_>,
    container_variables: Option<BTreeMap<String, String>>,
    status: &mut WorkflowStatus,
) {
    name_objects(view, status);
    let storages = storage_variables(view);
    status.env.retain(|name, _| {
        storages.contains_key(name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    });
    status.env.extend(workflow_variables(view));
    if let Some(container_variables) = container_variables {
        status.env.extend(storages);
        status.env.extend(container_variables);
    } else {
        for (name, value) in &mut status.env {
            if let Some(path) = storages.get(name) {
                value.clone_from(path);
            }
        }
    }
}

/// Writes the references to the Computes and the breakdowns into the status, and removes all other references,
/// `requires` and the workflow token.
fn name_objects(view: &View<'_>, status: &mut WorkflowStatus) {
    let namespace = view.namespace();
    let breakdown = |index: usize| {
        reference("DirectiveBreakdown", &directive_object_name(&view.workflow, index), &namespace)
    };
    let known: Vec<_> = (0..view.directives.len()).map(breakdown).collect();
    status.directive_breakdowns.retain(|reference| known.contains(reference));
    for (directive, reference) in view.directives.iter().zip(known) {
        if directive.breakdown.is_some() && !status.directive_breakdowns.contains(&reference) {
            status.directive_breakdowns.push(reference);
        }
    }
    status.computes = Some(reference("Computes", &view.workflow.name_any(), &namespace));
    (status.requires, status.workflow_token) = (Vec::new(), None);
}

fn workflow_variables(view: &View<'_>) -> [(String, String); 2] {
    [
        ("DW_WORKFLOW_NAME".to_owned(), view.workflow.name_any()),
        ("DW_WORKFLOW_NAMESPACE".to_owned(), view.namespace()),
    ]
}

/// Returns the variables by which the job finds its storage.
fn storage_variables(view: &View<'_>) -> BTreeMap<String, String> {
    let storages = job_storages(view);
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    for (name, kind, path) in storages.iter().rev() {
        variables.extend(job_variables(name, *kind, path));
    }
    if !storages.is_empty() {
        let paths: Vec<String> =
            storages.iter().map(|(name, _, path)| format!("{name}:{path}")).collect();
        variables.insert("DW_JOBS".to_owned(), paths.join(","));
    }
    variables.extend(persistent_variables(view));
    variables
}

/// Returns the variables by which the job finds persistent storage.
fn persistent_variables(view: &View<'_>) -> BTreeMap<String, String> {
    let used = view.directives.iter().enumerate().filter_map(|(index, directive)| {
        let (command, name) = instance::command(&view.workflow.spec.directives[index])?;
        let object = directive.persistent.as_ref()?.object.as_ref()?;
        let path = mount_path(view, index, instance::as_jobdw(object)?.file_system);
        matches!(command, Command::Persistentdw(_)).then_some((name, path))
    });
    let used: Vec<(String, String)> = used.collect();
    let mut variables: BTreeMap<String, String> = used
        .iter()
        .map(|(name, path)| (variable_name("DW_PERSISTENT_", name), path.clone()))
        .collect();
    if !used.is_empty() {
        let pairs: Vec<String> = used.iter().map(|(name, path)| format!("{name}:{path}")).collect();
        variables.insert("DW_PERSISTENTS".to_owned(), pairs.join(","));
    }
    variables
}

/// Returns name, kind and path of the storage of each `jobdw`, in the order of the directives.
fn job_storages(view: &View<'_>) -> Vec<(String, FileSystem, String)> {
    let lines = view.workflow.spec.directives.iter().enumerate();
    let job_storages = lines.filter_map(|(index, line)| Some((index, parse_jobdw(line)?)));
    job_storages
        .map(|(index, jobdw)| {
            let path = mount_path(view, index, jobdw.file_system);
            (jobdw.name, jobdw.file_system, path)
        })
        .collect()
}

fn parse_jobdw(line: &str) -> Option<Jobdw> {
    match Command::read(line)? {
        Command::Jobdw(jobdw) => Some(jobdw),
        _ => None,
    }
}

/// Returns the variables by which the job finds one storage.
fn job_variables(name: &str, file_system: FileSystem, path: &str) -> BTreeMap<String, String> {
    let name = variable_name("DW_JOB_", name);
    let kind = format!("DW_JOB_{}", file_system.as_str().to_uppercase());
    BTreeMap::from([(name, path.to_owned()), (kind, path.to_owned())])
}

/// Returns the name of the variable that holds the path of a storage.
fn variable_name(prefix: &str, name: &str) -> String {
    format!("{prefix}{}", name.replace('-', "_"))
}
