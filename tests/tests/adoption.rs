//! Adoption and release of persistent storage that the Go controllers made, on an XFS. The lab scenario `adoption` does the
//! same on a GFS2.

use tests::{adoption::adopt_use_release_destroy, gate, workflow::Flow};

#[test]
fn adopted_storage_is_used_by_jobs_with_its_data_and_released_unharmed() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut flow = Flow::new(2, "use")?;
    flow.fixture.run.job.file_system = "xfs";
    adopt_use_release_destroy(&mut flow.fixture.run)?;
    flow.nothing_is_left()?;
    flow.end()
}
