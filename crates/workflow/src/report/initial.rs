//! Writes a Workflow's first status, before any of its directives is carried out. Pure.

use api::{
    Workflow, WorkflowState,
    workflow::{WorkflowDriverStatus, WorkflowStatusKind},
};
use directive::{Directive, Ruleset};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::{DRIVER, micro_time};
use crate::{
    change::Change,
    names::{WORKFLOW_FINALIZER, reference},
    objects::view::View,
};

/// Adds the engine's finalizer to a Workflow, and the first status if no admission webhook wrote it.
pub fn begin_workflow(view: &View<'_>, now: Timestamp) -> Option<Change> {
    let before = &*view.workflow;
    let mut after = before.clone();
    after.metadata.finalizers.get_or_insert_default().push(WORKFLOW_FINALIZER.to_owned());
    begin_status(&mut after, Some(&view.site.rules), now);
    Change::patch(before, &after)
}

/// Begins the desired state and writes the fields that workload managers read: the reference to Computes, two
/// variables, and the entries in `status.drivers`. Expands presets, so that the directives keep their meaning when the
/// site changes a preset; a faulty one stays, and Proposal reports it. Without rules the drivers are unknown. A directive that fits no
/// rule still gets an entry for Proposal, which reports the fault of the directive.
pub fn begin_status(workflow: &mut Workflow, rules: Option<&Ruleset>, now: Timestamp) {
    let (name, namespace) = (workflow.name_any(), workflow.namespace().unwrap_or_default());
    let state = workflow.spec.desired_state.clone();
    let expanded = rules.and_then(|rules| rules.expand(&workflow.spec.directives).ok());
    if let Some(lines) = expanded {
        workflow.spec.directives = lines;
    }
    let status = workflow.status.get_or_insert_default();
    // The API server chooses a generated name after admission.
    if !name.is_empty() {
        status.env.insert("DW_WORKFLOW_NAME".to_owned(), name.clone());
        status.env.insert("DW_WORKFLOW_NAMESPACE".to_owned(), namespace.clone());
        status.computes = Some(reference("Computes", &name, &namespace));
    }
    if let Some(rules) = rules.filter(|_| status.drivers.is_empty()) {
        status.drivers = driver_entries(&workflow.spec.directives, rules);
    }
    let is_begun = status.state.as_ref() == Some(&state) && !status.ready;
    let since = status.desired_state_change.filter(|_| is_begun);
    start_state(workflow, &state, now);
    if since.is_some() {
        workflow.status.get_or_insert_default().desired_state_change = since;
    }
}

fn driver_entries(lines: &[String], rules: &Ruleset) -> Vec<WorkflowDriverStatus> {
    let entry = |driver: &str, directive: usize, state: &str| WorkflowDriverStatus {
        driver_id: driver.to_owned(),
        dwd_index: i64::try_from(directive).unwrap_or(i64::MAX),
        watch_state: WorkflowState::from(state),
        ..WorkflowDriverStatus::default()
    };
    let directives: Vec<Directive> = lines.iter().filter_map(|line| line.parse().ok()).collect();
    let known =
        if directives.len() == lines.len() { rules.drivers(&directives) } else { Vec::new() };
    let mut entries: Vec<_> = known
        .iter()
        .map(|known_entry| entry(&known_entry.driver, known_entry.directive, &known_entry.state))
        .collect();
    for index in 0..lines.len() {
        if !known
            .iter()
            .any(|known_entry| known_entry.directive == index && known_entry.state == "Proposal")
        {
            entries.push(entry(DRIVER, index, "Proposal"));
        }
    }
    entries
}

pub(super) fn start_state(workflow: &mut Workflow, state: &WorkflowState, now: Timestamp) {
    workflow.spec.force_ready = false;
    let status = workflow.status.get_or_insert_default();
    status.state = Some(state.clone());
    status.ready = false;
    status.status = Some(WorkflowStatusKind::DriverWait);
    status.message = String::new();
    status.desired_state_change = Some(micro_time(now));
}
