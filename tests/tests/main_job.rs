//! Tests of Warren's main job with all four programs, on real loop devices and file systems.

use tests::{gate, lives};

#[test]
fn xfs_is_carved_mounted_written_and_read_on_the_rabbit() -> anyhow::Result<()> {
    if gate::loop_devices() { lives::xfs(3) } else { Ok(()) }
}

#[test]
fn raw_is_carved_mounted_written_and_read_on_the_rabbit() -> anyhow::Result<()> {
    if gate::loop_devices() { lives::raw() } else { Ok(()) }
}
