//! `kill -9` of each program after every step of a job's life.

use tests::{crash, gate};

#[test]
fn each_program_may_die_after_every_step() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let victims = |node: &str| vec![node.to_owned(), "coordinator".to_owned()];
    crash::in_a_life_each(victims)
}

#[test]
fn each_agent_may_die_after_all_steps_of_one_life() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let deaths = crash::all_in_one_life(2)?;
    anyhow::ensure!(deaths > 16, "only {deaths} deaths");
    Ok(())
}
