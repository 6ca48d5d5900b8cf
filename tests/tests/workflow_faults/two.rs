//! Test with two coordinators that drive the same workflows.

use anyhow::Context;
use tests::{
    cluster::PATIENCE,
    gate,
    program::{Program, binary, command, until},
    workflow::{AFTER_PROPOSAL, Flow},
};

use crate::XFS;

/// During the first workflow both coordinators run, and a coordinator whose write conflicts plans again. During the
/// second workflow, the test kills the two coordinators in turn, one in each state, and the coordinator that still runs
/// continues.
#[test]
fn two_coordinators_at_once_drive_a_workflow_to_its_end() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(2, "two")?;
    let mut second = start_second(&flow)?;
    flow.fixture.run.patient = true;
    for turn in 0..2 {
        flow.next(&format!("two-{turn}"));
        flow.create(&[XFS, "#DW jobdw type=raw capacity=64MiB name=other"])?;
        flow.wait("Proposal", "Completed")?;
        flow.fill_computes()?;
        for (place, state) in AFTER_PROPOSAL.into_iter().enumerate() {
            flow.request_state(state)?;
            match (turn, place % 2) {
                (0, _) => {}
                (_, 0) => flow.fixture.run.cluster.coordinator()?.kill()?,
                (_, _) => until("the second coordinator", PATIENCE, || second.kill())?,
            }
            flow.wait(state, "Completed")?;
        }
        flow.delete()?;
    }
    second.stop(PATIENCE).context("stop the second")?;
    flow.end()
}

fn start_second(flow: &Flow) -> anyhow::Result<Program> {
    let cluster = &flow.fixture.run.cluster;
    let mut argv = command(binary("coordinator")?);
    argv.arg("--workflows").arg("--kubeconfig").arg(cluster.kubeconfig());
    argv.arg("--socket").arg(cluster.coordinator_socket().with_file_name("second.sock"));
    argv.arg("--mount-root").arg(cluster.mount_root());
    Program::start("second", &argv, &cluster.logs())
}
