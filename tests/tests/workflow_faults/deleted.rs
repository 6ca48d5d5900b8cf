//! Test in which a person deletes objects while a job uses them.

use anyhow::{Context, ensure};
use serde_json::Value;
use tests::{
    cluster::patience,
    gate,
    program::until,
    workflow::{AFTER_PROPOSAL, Flow},
};

use crate::XFS;

const PROFILE: &str = "nnfstorageprofile";

const KINDS: [&str; 7] = [
    "computes",
    "directivebreakdown",
    "servers",
    PROFILE,
    "clientmount",
    "nnfnodestorage",
    "nnfnodeblockstorage",
];

/// Returns one object of this kind that belongs to the workflow.
fn object_of_workflow(flow: &Flow, kind: &str) -> anyhow::Result<Value> {
    let text = flow.fixture.run.prints(&["get", kind, "--all-namespaces", "--json"])?;
    let listed: Value = serde_json::from_str(&text).context("decode a list")?;
    let items = listed["items"].as_array().or_else(|| listed.as_array()).context("a list")?;
    let own = items.iter().find(|item| item["metadata"]["namespace"] != "nnf-system");
    own.cloned().with_context(|| format!("no {kind}"))
}

/// If the engine cannot make a deleted object again, the Workflow's status reports the loss, and the workflow can be
/// torn down. The API refuses to delete the pinned profile, which the agent needs to remove the storage.
#[test]
fn an_object_that_is_deleted_under_a_job_is_made_again_or_reported() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(2, "deleted")?;
    for kind in KINDS {
        flow.create(&[XFS])?;
        flow.wait("Proposal", "Completed")?;
        flow.fill_computes()?;
        for state in ["Setup", "DataIn", "PreRun"] {
            flow.reach(state)?;
        }
        let object = object_of_workflow(&flow, kind)?;
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (name, namespace) = (text("name"), text("namespace"));
        let delete = ["delete", kind, &name, "-n", &namespace, "--wait=false"];
        let deleted = flow.fixture.run.prints(&delete);
        if kind == PROFILE {
            let why = deleted.err().context("a pinned profile was deleted under its job")?;
            ensure!(format!("{why:#}").contains("belongs to its Workflow deleted"), "{why:#}");
        } else {
            deleted.with_context(|| kind)?;
        }
        for state in &AFTER_PROPOSAL[3..] {
            flow.request_state(state).with_context(|| kind)?;
            let reported =
                until(&format!("the end of {state} without {kind}"), patience(), || {
                    let status = flow.workflow()?["status"].clone();
                    let is_error = status["status"] == "Error" && status["message"] != "";
                    ensure!(status["state"] == **state, "not yet: {status:#}");
                    ensure!(status["ready"] == true || is_error, "not yet: {status:#}");
                    Ok(status)
                })?;
            if reported["ready"] != true {
                flow.reach("Teardown").with_context(|| kind)?;
                break;
            }
        }
        flow.delete().with_context(|| kind)?;
    }
    flow.end()
}
