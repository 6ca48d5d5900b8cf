//! What a workflow's status says of its storage: the breakdowns, and the variables by which the job finds it.

use std::collections::BTreeMap;

use api::WorkflowStatus;
use directive::{Command, Directive, FileSystem, Jobdw};
use kube::ResourceExt;

use crate::{
    instance,
    names::{of_directive, reference},
    plan::{
        container, mounts,
        proposal::{environment, variable},
    },
    view::View,
};

/// Names of the variables that the engine writes begin so.
const PREFIXES: [&str; 4] = ["DW_JOB", "DW_PERSISTENT", "DW_WORKFLOW_", "NNF_CONTAINER_"];

/// Names the Computes and the breakdowns in the status, and with `with_paths` the variables by which the job finds its storage.
/// Removes what the engine did not write: workload managers pass these fields on to jobs.
pub(super) fn add_storage(view: &View<'_>, with_paths: bool, status: &mut WorkflowStatus) {
    name_objects(view, status);
    let storages = storages(view);
    status.env.retain(|name, _| {
        storages.contains_key(name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    });
    status.env.extend(of_workflow(view));
    if with_paths {
        status.env.extend(storages);
        status.env.extend(container::compute_environment(view));
    } else {
        for (name, value) in &mut status.env {
            if let Some(path) = storages.get(name) {
                value.clone_from(path);
            }
        }
    }
}

/// The references that the engine writes, and no other.
fn name_objects(view: &View<'_>, status: &mut WorkflowStatus) {
    let namespace = view.namespace();
    let breakdown = |index: usize| {
        reference("DirectiveBreakdown", &of_directive(&view.workflow, index), &namespace)
    };
    let known: Vec<_> = (0..view.directives.len()).map(breakdown).collect();
    status.directive_breakdowns.retain(|one| known.contains(one));
    for (directive, reference) in view.directives.iter().zip(known) {
        if directive.breakdown.is_some() && !status.directive_breakdowns.contains(&reference) {
            status.directive_breakdowns.push(reference);
        }
    }
    status.computes = Some(reference("Computes", &view.workflow.name_any(), &namespace));
    (status.requires, status.workflow_token) = (Vec::new(), None);
}

fn of_workflow(view: &View<'_>) -> [(String, String); 2] {
    [
        ("DW_WORKFLOW_NAME".to_owned(), view.workflow.name_any()),
        ("DW_WORKFLOW_NAMESPACE".to_owned(), view.namespace()),
    ]
}

/// Variables that the job finds its storages by.
fn storages(view: &View<'_>) -> BTreeMap<String, String> {
    let all = jobs(view);
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    for (name, kind, path) in all.iter().rev() {
        variables.extend(environment(name, *kind, path));
    }
    if !all.is_empty() {
        let paths: Vec<String> =
            all.iter().map(|(name, _, path)| format!("{name}:{path}")).collect();
        variables.insert("DW_JOBS".to_owned(), paths.join(","));
    }
    variables.extend(persistent(view));
    variables
}

/// Variables that the job finds persistent storage by.
fn persistent(view: &View<'_>) -> BTreeMap<String, String> {
    let used = view.directives.iter().enumerate().filter_map(|(index, directive)| {
        let (command, name) = instance::command(&view.workflow.spec.directives[index])?;
        let object = directive.persistent.as_ref()?.object.as_ref()?;
        let path = mounts::path(view, index, instance::as_jobdw(object)?.file_system);
        matches!(command, Command::Persistentdw(_)).then_some((name, path))
    });
    let used: Vec<(String, String)> = used.collect();
    let mut variables: BTreeMap<String, String> =
        used.iter().map(|(name, path)| (variable("DW_PERSISTENT_", name), path.clone())).collect();
    if !used.is_empty() {
        let all: Vec<String> = used.iter().map(|(name, path)| format!("{name}:{path}")).collect();
        variables.insert("DW_PERSISTENTS".to_owned(), all.join(","));
    }
    variables
}

/// Name, kind and path of the job's storages, in their order.
fn jobs(view: &View<'_>) -> Vec<(String, FileSystem, String)> {
    let lines = view.workflow.spec.directives.iter().enumerate();
    let jobs = lines.filter_map(|(index, line)| Some((index, jobdw(line)?)));
    jobs.map(|(index, jobdw)| {
        let path = mounts::path(view, index, jobdw.file_system);
        (jobdw.name, jobdw.file_system, path)
    })
    .collect()
}

fn jobdw(line: &str) -> Option<Jobdw> {
    match Command::try_from(&line.parse::<Directive>().ok()?).ok()? {
        Command::Jobdw(jobdw) => Some(jobdw),
        _ => None,
    }
}
