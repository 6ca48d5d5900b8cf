//! Tests of Warren's main job with all four programs, on real loop devices and file systems.

use tests::{gate, lives};

#[test]
fn an_xfs_is_made_mounted_written_and_read_on_the_rabbit() -> anyhow::Result<()> {
    if gate::loop_devices() { lives::xfs(3) } else { Ok(()) }
}

#[test]
fn a_raw_volume_is_made_mounted_written_and_read_on_the_rabbit() -> anyhow::Result<()> {
    if gate::loop_devices() { lives::raw() } else { Ok(()) }
}
