//! Tests of the verbs that prolog and epilog call on a compute, with a real coordinator and real XFS, and with faults
//! that jobs, workload managers and machines cause.
//!
//! | bad input or fault | module |
//! |---|---|
//! | unknown job; job with a missing ClientMount | `life` |
//! | coordinator stopped, or not answering | `centre_away` |
//! | coordinator that sends another node's mounts | the agent's own `agent::tests::foreign`, `agent::questions` |
//! | expired certificate; host name that does not match | `certificates` |
//! | umount(2) that does not return | `hung` |
//! | full `/run`, full state directory; two prologs; epilog before the prolog's end; killed prolog; clock jumps | `scripts` |
//! | a user who fills the volume, leaves processes, bind-mounts it elsewhere, makes links | `users` |

mod centre_away;
mod certificates;
mod hung;
mod life;
mod on_demand;
mod scripts;
mod users;

use anyhow::ensure;
use serde_json::json;
use tests::{
    cluster::PATIENCE,
    fixture::Fixture,
    program::until,
    verbs::{Caller, computes, report, workflow},
};

const COMPUTE: &str = "compute-1";

/// Prepares a job whose storage is made and whose Workflow is in PreRun, and returns it with a caller of the
/// verbs on the compute.
fn ready() -> anyhow::Result<(Fixture, Caller)> {
    ready_in(Fixture::without_engine(1, "xfs")?)
}

fn ready_in(mut fixture: Fixture) -> anyhow::Result<(Fixture, Caller)> {
    fixture.run.carve()?;
    fixture.run.wait_for_file_systems()?;
    enter(&mut fixture, "PreRun")?;
    let caller = Caller::on(&fixture, COMPUTE)?;
    Ok((fixture, caller))
}

/// Does the same as `ready`, and then mounts the storage.
fn mounted() -> anyhow::Result<(Fixture, Caller)> {
    mounted_in(ready()?)
}

fn mounted_in((mut fixture, caller): (Fixture, Caller)) -> anyhow::Result<(Fixture, Caller)> {
    fixture.run.mount_on_computes()?;
    caller.call(&["mount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    Ok((fixture, caller))
}

/// Applies the Workflow in this state, with its Computes and its status.
fn enter(fixture: &mut Fixture, state: &str) -> anyhow::Result<()> {
    let (job, chassis) = (fixture.run.job.clone(), fixture.run.cluster.chassis().clone());
    fixture.run.apply("workflow", &[workflow(&job, state), computes(&job, &chassis)])?;
    let env = json!({"DW_JOB_my_scratch": job.mount_path(), "DW_WORKFLOW_NAME": job.name});
    report(fixture, &json!({"state": state, "ready": false, "status": "DriverWait", "env": env}))
}

/// Moves the Workflow to PostRun, and sets the desired state of its ClientMounts to unmounted.
fn end_job(fixture: &mut Fixture) -> anyhow::Result<()> {
    enter(fixture, "PostRun")?;
    fixture.run.unmount_from_computes()
}

/// Removes the job's storage, stops the programs, and checks that nothing is left.
fn end(mut fixture: Fixture) -> anyhow::Result<()> {
    fixture.run.withdraw_from_computes()?;
    fixture.run.tear_down_storage()?;
    fixture.end()
}

fn is_mounted(fixture: &Fixture) -> anyhow::Result<bool> {
    let script =
        format!("grep -cF ' {} ' /proc/self/mountinfo || true", fixture.run.job.mount_path());
    Ok(fixture.run.cluster.run_on(COMPUTE, 0, &script)?.trim() == "1")
}

/// Waits until the agent is connected with the coordinator.
fn until_connected(caller: &Caller) -> anyhow::Result<()> {
    until("the agent to be connected", PATIENCE, || {
        let status = caller.call(&["status", "--json"])?.expect_exit(0)?.json()?;
        ensure!(status["connected"] == true, "{status}");
        Ok(())
    })
}
