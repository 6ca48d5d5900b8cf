//! What a prolog and an epilog call on a compute, with a real coordinator and real XFS: the verbs from first to last, and what a
//! job, a workload manager and a machine do to them.
//!
//! | bad input or fault | module |
//! |---|---|
//! | unknown job; job whose objects are half there | `life` |
//! | coordinator gone, or slow | `centre_away` |
//! | coordinator that lies about another node's mounts | the agent's own `agent::tests::foreign`, `agent::questions` |
//! | expired certificate; host name that does not match | `certificates` |
//! | umount(2) that does not return | `hung` |
//! | full `/run`, full state directory; two prologs; epilog before the prolog's end; killed prolog; clock jumps | `scripts` |
//! | a user who fills the volume, leaves processes, binds it elsewhere, makes links | `users` |

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

/// A compute with a job whose storage is made and whose Workflow is in PreRun, and what calls verbs there.
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

/// The same with everything mounted.
fn mounted() -> anyhow::Result<(Fixture, Caller)> {
    mounted_in(ready()?)
}

fn mounted_in((mut fixture, caller): (Fixture, Caller)) -> anyhow::Result<(Fixture, Caller)> {
    fixture.run.mount_on_computes()?;
    caller.call(&["mount", "--job", "1", "--deadline", "60s"])?.with(0)?;
    Ok((fixture, caller))
}

/// Brings the Workflow to a state, with its computes named.
fn enter(fixture: &mut Fixture, state: &str) -> anyhow::Result<()> {
    let (job, chassis) = (fixture.run.job.clone(), fixture.run.cluster.chassis().clone());
    fixture.run.apply("workflow", &[workflow(&job, state), computes(&job, &chassis)])?;
    let env = json!({"DW_JOB_my_scratch": job.mount_path(), "DW_WORKFLOW_NAME": job.name});
    report(fixture, &json!({"state": state, "ready": false, "status": "DriverWait", "env": env}))
}

/// The job is over, and its ClientMounts ask to be unmounted.
fn end_job(fixture: &mut Fixture) -> anyhow::Result<()> {
    enter(fixture, "PostRun")?;
    fixture.run.unmount_from_computes()
}

/// Everything of the job and of the fixture goes, and nothing is left.
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

/// The agent has heard what the coordinator knows of the job.
fn until_known(caller: &Caller) -> anyhow::Result<()> {
    until("the agent to be connected", PATIENCE, || {
        let status = caller.call(&["status", "--json"])?.with(0)?.json()?;
        ensure!(status["connected"] == true, "{status}");
        Ok(())
    })
}
