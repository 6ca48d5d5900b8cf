//! `kill -9` of each program after every step of a job's life.

use tests::{crash, gate};

#[test]
fn each_program_may_die_after_every_step() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let victims = |node: &str| vec![node.to_owned(), "coordinator".to_owned()];
    crash::after_every_step(victims, |_| ()).map(drop)
}
