//! Counts the engine's requests for each object of a workflow.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use control_plane::AuditEvent;
use tests::{
    disturbed::{ANOTHER, DAEMONS, Disturbed},
    fixture::Fixture,
    gate,
    server::{RealServer, Roles, Server},
    workflow::{AFTER_PROPOSAL, Flow},
};

/// Upper limit of the average number of requests per object, without the Workflow. Three requests are usual. A fourth
/// occurs if computes finish one by one, or if a write conflicts with another writer.
const EACH: usize = 4;
/// Upper limit of writes of the Workflow in each of its seven states. Three are necessary: admission does not accept a
/// new state and the results of that state in one write, and the engine writes a message during a long wait.
const STATE: usize = 3;
/// Upper limit of additional writes of the Workflow for each compute: on a busy machine, computes mount and unmount one
/// by one, and each changes the message of PreRun and of PostRun.
const COMPUTE: usize = 2;
/// Number of requests with which the coordinator adds and removes the finalizer of a compute's ClientMount. The engine
/// does not send them.
const FINALIZER: usize = 2;

#[test]
fn a_workflow_costs_few_requests_for_each_of_its_objects() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    for computes in [1, 8] {
        let requests = requests_of_a_workflow(computes)?;
        let objects: BTreeSet<_> =
            requests.iter().map(|event| (kind(event), &event.namespace, name(event))).collect();
        print_table(computes, &requests, objects.len());
        ensure!(objects.len() > usize::from(computes), "{objects:?}");
        let workflow_requests = requests.iter().filter(|event| kind(event) == "workflows").count();
        let most = STATE * 7 + COMPUTE * usize::from(computes);
        ensure!(
            workflow_requests <= most,
            "{workflow_requests} requests for the Workflow, expected at most {most}"
        );
        let rest = requests.len() - workflow_requests - FINALIZER * usize::from(computes);
        ensure!(
            rest <= EACH * (objects.len() - 1),
            "{rest} requests for {} other objects",
            objects.len() - 1
        );
        let refused = requests
            .iter()
            .filter(|event| event.code >= 400 && ![404, 409].contains(&event.code))
            .count();
        ensure!(refused == 0, "{refused} requests were refused: {requests:#?}");
    }
    Ok(())
}

/// Runs a workflow from its creation to its deletion, and returns the engine's requests without watches.
fn requests_of_a_workflow(computes: u8) -> anyhow::Result<Vec<AuditEvent>> {
    let disturbed = Disturbed::new(&api::crd_values())?;
    let daemons = disturbed.kubeconfig_of(DAEMONS)?;
    let roles = Roles {
        operator: disturbed.plane.kubeconfig(),
        coordinator: disturbed.kubeconfig_of(ANOTHER)?,
        rabbit: daemons,
        ..Roles::default()
    };
    let server = Server::Real(RealServer::with_roles(disturbed.plane.kubeconfig(), roles));
    let fixture = Fixture::with_engine_on(server, computes)?;
    let mut flow = Flow::on(fixture, "cost")?;
    let before = disturbed.plane.audit()?.len();
    flow.create(&["#DW jobdw type=raw capacity=4MiB name=scratch"])?;
    flow.wait("Proposal", "Completed")?;
    flow.fill_computes()?;
    for state in AFTER_PROPOSAL {
        flow.reach(state)?;
    }
    flow.delete()?;
    let audit = disturbed.plane.audit()?;
    flow.end()?;
    let requests = audit.get(before..).context("the audit log became shorter")?;
    Ok(requests.iter().filter(|event| is_of_engine(event)).cloned().collect())
}

/// Returns true for requests of the coordinator, except watches and the statuses that it writes for computes.
fn is_of_engine(event: &AuditEvent) -> bool {
    event.user == ANOTHER && event.verb != "watch" && event.resource != "clientmounts/status"
}

fn kind(event: &AuditEvent) -> &str {
    event.resource.split('/').next().unwrap_or_default()
}

/// Returns the object's name, which the URI of a create does not have.
fn name(event: &AuditEvent) -> &str {
    &event.name
}

#[expect(clippy::print_stderr, reason = "the table is what this suite is for")]
fn print_table(computes: u8, requests: &[AuditEvent], objects: usize) {
    let mut by_verb: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for event in requests {
        *by_verb.entry((&event.verb, &event.resource)).or_default() += 1;
    }
    eprintln!(
        "A workflow of {computes} computes: {} requests of the engine for {objects} objects",
        requests.len()
    );
    for ((verb, resource), count) in by_verb {
        eprintln!("    {count:>4} {verb} {resource}");
    }
}
