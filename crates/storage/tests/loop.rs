//! Runs the tests of `scenarios` and the tests that need a kernel on real loop devices, with real XFS and real mounts.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod by_hand;
mod kernel;
mod lab;
mod scenarios;

use std::fs::File;

use by_hand::run;
use lab::{Lab, with_lab, with_only_lab};

#[test]
fn allocations_life() {
    with_lab(|lab| scenarios::allocations::life(lab));
}

#[test]
fn allocations_moved() {
    with_lab(|lab| scenarios::allocations::moved(lab));
}

#[test]
fn allocations_access_is_what_a_node_sees() {
    with_lab(|lab| scenarios::allocations::access_is_what_a_node_sees(lab));
}

#[test]
fn allocations_reboot() {
    with_lab(|lab| scenarios::allocations::reboot(lab));
}

#[test]
fn allocations_busy() {
    with_lab(|lab| scenarios::allocations::busy(lab));
}

#[test]
fn allocations_capacity() {
    with_lab(|lab| scenarios::allocations::capacity(lab));
}

#[test]
fn file_systems_life() {
    with_lab(|lab| scenarios::file_systems::life(lab));
}

#[test]
fn file_systems_half_made() {
    with_lab(|lab| scenarios::file_systems::half_made(lab));
}

#[test]
fn file_systems_leftover_temporary_mount() {
    with_lab(|lab| scenarios::file_systems::leftover_temporary_mount(lab));
}

#[test]
fn mounts_xfs() {
    with_lab(|lab| scenarios::mounts::xfs(lab));
}

#[test]
fn mounts_raw() {
    with_lab(|lab| scenarios::mounts::raw(lab));
}

#[test]
fn mounts_bind() {
    with_lab(|lab| scenarios::mounts::bind(lab));
}

#[test]
fn mounts_renamed() {
    with_lab(|lab| scenarios::mounts::renamed(lab));
}

#[test]
fn mounts_only_mounts() {
    with_lab(|lab| scenarios::mounts::only_mounts(lab));
}

#[test]
fn mounts_wanted_again() {
    with_lab(|lab| scenarios::mounts::wanted_again(lab));
}

#[test]
fn mounts_deep() {
    with_lab(|lab| scenarios::mounts::deep(lab));
}

#[test]
fn mounts_kept_elsewhere() {
    with_only_lab(|lab| scenarios::mounts::kept_elsewhere(lab));
}

#[test]
fn rejections_occupied() {
    with_lab(|lab| scenarios::rejections::occupied(lab));
}

#[test]
fn rejections_occupied_by_another_allocation() {
    with_lab(|lab| scenarios::rejections::occupied_by_another_allocation(lab));
}

#[test]
fn rejections_symlinks() {
    with_lab(|lab| scenarios::rejections::symlinks(lab));
}

#[test]
fn rejections_wrong_things_in_the_way() {
    with_lab(|lab| scenarios::rejections::wrong_things_in_the_way(lab));
}

#[test]
fn rejections_through_a_mount() {
    with_lab(|lab| scenarios::rejections::through_a_mount(lab));
}

#[test]
fn rejections_foreign_signature() {
    with_lab(|lab| scenarios::rejections::foreign_signature(lab));
}

#[test]
fn rejections_made_for_another() {
    with_lab(|lab| scenarios::rejections::made_for_another(lab));
}

#[test]
fn rejections_not_made_or_anothers() {
    with_lab(|lab| scenarios::rejections::not_made_or_anothers(lab));
}

#[test]
fn rejections_profile_sets_uuid() {
    with_lab(|lab| scenarios::rejections::profile_sets_uuid(lab));
}

#[test]
fn trees_life() {
    with_lab(|lab| scenarios::trees::life(lab));
}

#[test]
fn trees_planted() {
    with_lab(|lab| scenarios::trees::planted(lab));
}

#[test]
fn trees_root_in_the_way() {
    with_lab(|lab| scenarios::trees::root_in_the_way(lab));
}

#[test]
fn trees_with_mounts() {
    with_lab(|lab| scenarios::trees::with_mounts(lab));
}

#[test]
fn mounts_only_mounts_goes_on() {
    with_lab(|lab| scenarios::mounts::only_mounts_goes_on(lab));
}

#[test]
fn mounts_covered() {
    with_lab(|lab| scenarios::mounts::covered(lab));
}

#[test]
fn mounts_swapped() {
    with_lab(|lab| scenarios::mounts::swapped(lab));
}

#[test]
fn file_systems_occupied_temporary_place() {
    with_lab(|lab| scenarios::file_systems::occupied_temporary_place(lab));
}

#[test]
fn trees_seventeen_computes() {
    with_lab(|lab| scenarios::trees::seventeen_computes(lab));
}

/// The tests of logical volumes need device-mapper beneath the loop devices' volumes.
pub(crate) fn with_lvm(story: impl FnOnce(&Lab)) {
    if gate::open("lvm", missing_requirement()) {
        with_lab(story);
    }
}

fn missing_requirement() -> Option<&'static str> {
    // The device node alone proves nothing: the installation of lvm2 creates it.
    if File::open("/dev/mapper/control").is_err() {
        return Some("this kernel has no device-mapper (/dev/mapper/control cannot be opened)");
    }
    (!run("sh", &["-c", "command -v lvm"]).status.success())
        .then_some("lvm is missing: install lvm2")
}

#[test]
fn volumes_life() {
    with_lvm(|lab| scenarios::volumes::life(lab));
}

#[test]
fn volumes_mounted_twice() {
    with_lvm(|lab| scenarios::volumes::mounted_twice(lab));
}

#[test]
fn volumes_shared_group() {
    with_lvm(|lab| scenarios::volumes::shared_group(lab));
}

#[test]
fn volumes_raw() {
    with_lvm(|lab| scenarios::volumes::raw(lab));
}

#[test]
fn volumes_refused() {
    with_lvm(|lab| scenarios::volumes::refused(lab));
}

#[test]
fn volumes_goes_on() {
    with_lvm(|lab| scenarios::volumes::goes_on(lab));
}

#[test]
fn allocations_spread() {
    with_lab(|lab| scenarios::allocations::spread(lab));
}

#[test]
fn allocations_too_few_drives() {
    with_lab(|lab| scenarios::allocations::too_few_drives(lab));
}

#[test]
fn allocations_completed() {
    with_lab(|lab| scenarios::allocations::completed(lab));
}

#[test]
fn allocations_records_lost() {
    with_lab(|lab| scenarios::allocations::records_lost(lab));
}
