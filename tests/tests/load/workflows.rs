//! What a workflow costs the API server: requests of the engine, for each object that must exist.

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

/// Requests for each object but the Workflow, at most, on average: three, and one more where computes end one by one, or
/// somebody else was quicker.
const EACH: usize = 4;
/// Writes of the Workflow in each of its seven states, at most: admission takes no state together with what was done in it, and
/// a wait that lasts is told.
const STATE: usize = 3;
/// More writes of the Workflow for each compute, at most: where computes mount and unmount one by one, as on a busy host, the
/// message of PreRun and that of PostRun change with each.
const COMPUTE: usize = 2;
/// Requests by which the coordinator puts a compute's finalizer on its ClientMount and takes it off: no work of the engine.
const FINALIZER: usize = 2;

#[test]
fn a_workflow_costs_few_requests_for_each_of_its_objects() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    for computes in [1, 8] {
        let asked = requests_of_a_life(computes)?;
        let objects: BTreeSet<_> =
            asked.iter().map(|event| (kind(event), &event.namespace, name(event))).collect();
        show(computes, &asked, objects.len());
        ensure!(objects.len() > usize::from(computes), "{objects:?}");
        let of_workflow = asked.iter().filter(|event| kind(event) == "workflows").count();
        let most = STATE * 7 + COMPUTE * usize::from(computes);
        ensure!(of_workflow <= most, "{of_workflow} of the Workflow");
        let rest = asked.len() - of_workflow - FINALIZER * usize::from(computes);
        ensure!(rest <= EACH * (objects.len() - 1), "{rest} for {}", objects.len() - 1);
        let refused = asked
            .iter()
            .filter(|event| event.code >= 400 && ![404, 409].contains(&event.code))
            .count();
        ensure!(refused == 0, "{refused} requests were refused: {asked:#?}");
    }
    Ok(())
}

/// All that the engine asks for one workflow from its creation until it is gone; watches are held anyway.
fn requests_of_a_life(computes: u8) -> anyhow::Result<Vec<AuditEvent>> {
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
    let asked = audit.get(before..).context("the audit log became shorter")?;
    Ok(asked.iter().filter(|event| is_the_engines(event)).cloned().collect())
}

/// Of the coordinator, but not what it reports for computes, nor its watches.
fn is_the_engines(event: &AuditEvent) -> bool {
    event.user == ANOTHER && event.verb != "watch" && event.resource != "clientmounts/status"
}

fn kind(event: &AuditEvent) -> &str {
    event.resource.split('/').next().unwrap_or_default()
}

/// The object's name; a creation's is not in its URI.
fn name(event: &AuditEvent) -> &str {
    &event.name
}

#[expect(clippy::print_stderr, reason = "the table is what this suite is for")]
fn show(computes: u8, asked: &[AuditEvent], objects: usize) {
    let mut by_verb: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for event in asked {
        *by_verb.entry((&event.verb, &event.resource)).or_default() += 1;
    }
    eprintln!(
        "A workflow of {computes} computes: {} requests of the engine for {objects} objects",
        asked.len()
    );
    for ((verb, resource), count) in by_verb {
        eprintln!("    {count:>4} {verb} {resource}");
    }
}
