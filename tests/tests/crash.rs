//! Kills each program with SIGKILL after every step of a job.

use tests::{crash, gate};

#[test]
fn a_job_succeeds_when_one_program_is_killed_after_a_step() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let victims = |node: &str| vec![node.to_owned(), "coordinator".to_owned()];
    crash::kill_once_in_each_run(victims)
}

#[test]
fn a_job_succeeds_when_its_agents_are_killed_after_every_step() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let deaths = crash::kill_after_every_step_of_one_job(2)?;
    anyhow::ensure!(deaths > 16, "only {deaths} deaths");
    Ok(())
}
