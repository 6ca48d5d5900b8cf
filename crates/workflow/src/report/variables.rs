//! What a workflow's status says of its storage: the breakdowns, and the variables by which the job finds it.

use std::collections::BTreeMap;

use api::WorkflowStatus;
use directive::{Command, Directive, FileSystem, Jobdw};

use crate::{
    instance,
    names::{of_directive, reference},
    plan::{
        container, mounts,
        proposal::{environment, variable},
    },
    view::View,
};

/// Names the breakdowns of the directives in the status, and with `with_paths` the variables by which the job finds its storage.
pub(super) fn add_storage(view: &View<'_>, with_paths: bool, status: &mut WorkflowStatus) {
    let namespace = view.namespace();
    let breakdowns = view.directives.iter().enumerate().filter(|(_, one)| one.breakdown.is_some());
    let breakdowns = breakdowns.map(|(index, _)| {
        reference("DirectiveBreakdown", &of_directive(&view.workflow, index), &namespace)
    });
    for breakdown in breakdowns {
        if !status.directive_breakdowns.contains(&breakdown) {
            status.directive_breakdowns.push(breakdown);
        }
    }
    if with_paths {
        let all = jobs(view);
        let paths = all.iter().map(|(name, _, path)| format!("{name}:{path}"));
        let paths: Vec<String> = paths.collect();
        let mut variables: BTreeMap<String, String> = BTreeMap::new();
        for (name, kind, path) in all.iter().rev() {
            variables.extend(environment(name, *kind, path));
        }
        if !paths.is_empty() {
            variables.insert("DW_JOBS".to_owned(), paths.join(","));
        }
        variables.extend(persistent(view));
        variables.extend(container::compute_environment(view));
        status.env.extend(variables);
    }
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
