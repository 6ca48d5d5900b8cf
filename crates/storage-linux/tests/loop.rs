//! Runs the tests of `scenarios`, and tests that need a kernel, on real loop devices with real XFS and real mounts.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod by_hand;
mod kernel;
mod lab;
mod scenarios;

use std::fs::File;

use by_hand::run;
use lab::{Lab, with_lab, with_only_lab};

#[test]
fn an_allocation_is_created_attached_detached_and_deleted() {
    with_lab(|lab| scenarios::allocations::life(lab));
}

#[test]
fn a_compute_that_moves_to_another_slot_keeps_access_and_its_former_slot_loses_it() {
    with_lab(|lab| scenarios::allocations::moved(lab));
}

#[test]
fn only_a_node_with_access_to_a_namespace_has_its_device() {
    with_lab(|lab| scenarios::allocations::access_is_what_a_node_sees(lab));
}

#[test]
fn after_a_reboot_hosts_keep_their_access_to_a_namespace_and_its_device_returns() {
    with_lab(|lab| scenarios::allocations::reboot(lab));
}

#[test]
fn a_mounted_namespace_is_neither_detached_nor_deleted() {
    with_lab(|lab| scenarios::allocations::busy(lab));
}

#[test]
fn allocations_of_no_bytes_or_of_too_many_bytes_are_rejected() {
    with_lab(|lab| scenarios::allocations::capacity(lab));
}

#[test]
fn a_file_system_is_created_once_and_torn_down_once() {
    with_lab(|lab| scenarios::file_systems::life(lab));
}

#[test]
fn the_remains_of_a_killed_mkfs_are_wiped_and_mkfs_runs_again() {
    with_lab(|lab| scenarios::file_systems::half_made(lab));
}

#[test]
fn a_leftover_temporary_mount_is_used_and_unmounted() {
    with_lab(|lab| scenarios::file_systems::leftover_temporary_mount(lab));
}

#[test]
fn an_xfs_is_mounted_with_its_owner_and_unmounted() {
    with_lab(|lab| scenarios::mounts::xfs(lab));
}

#[test]
fn a_raw_volume_is_mounted_as_a_device_bound_on_a_file() {
    with_lab(|lab| scenarios::mounts::raw(lab));
}

#[test]
fn a_bind_mount_can_be_unmounted_after_the_mount_that_it_shows() {
    with_lab(|lab| scenarios::mounts::bind(lab));
}

#[test]
fn a_mount_fails_when_the_name_of_its_device_moved_to_another_namespace() {
    with_lab(|lab| scenarios::mounts::renamed(lab));
}

#[test]
fn the_clean_up_leaves_only_desired_and_foreign_mounts() {
    with_lab(|lab| scenarios::mounts::only_mounts(lab));
}

#[test]
fn hooks_run_again_when_a_mount_is_wanted_again() {
    with_lab(|lab| scenarios::mounts::wanted_again(lab));
}

#[test]
fn empty_directories_that_were_created_for_a_mount_are_removed_with_it() {
    with_lab(|lab| scenarios::mounts::deep(lab));
}

#[test]
fn a_volume_in_use_in_another_mount_namespace_is_not_released() {
    with_only_lab(|lab| scenarios::mounts::kept_elsewhere(lab));
}

#[test]
fn a_mount_point_with_a_foreign_mount_is_rejected() {
    with_lab(|lab| scenarios::rejections::occupied(lab));
}

#[test]
fn a_mount_point_with_a_mount_of_another_allocation_is_rejected() {
    with_lab(|lab| scenarios::rejections::occupied_by_another_allocation(lab));
}

#[test]
fn a_mount_point_beneath_a_symbolic_link_is_rejected() {
    with_lab(|lab| scenarios::rejections::symlinks(lab));
}

#[test]
fn a_mount_point_of_the_wrong_type_or_with_contents_is_rejected() {
    with_lab(|lab| scenarios::rejections::wrong_things_in_the_way(lab));
}

#[test]
fn a_mount_point_inside_another_mount_is_rejected() {
    with_lab(|lab| scenarios::rejections::through_a_mount(lab));
}

#[test]
fn a_device_with_a_foreign_signature_is_rejected() {
    with_lab(|lab| scenarios::rejections::foreign_signature(lab));
}

#[test]
fn a_namespace_with_a_reused_nsid_is_not_taken_for_the_former_namespace() {
    with_lab(|lab| scenarios::rejections::made_for_another(lab));
}

#[test]
fn a_device_without_a_file_system_or_with_another_one_is_not_mounted() {
    with_lab(|lab| scenarios::rejections::not_made_or_anothers(lab));
}

#[test]
fn a_mkfs_line_that_sets_the_uuid_is_rejected() {
    with_lab(|lab| scenarios::rejections::profile_sets_uuid(lab));
}

#[test]
fn an_index_tree_is_created_changed_and_removed() {
    with_lab(|lab| scenarios::trees::life(lab));
}

#[test]
fn a_wrong_link_in_an_index_tree_is_corrected_and_foreign_files_stay() {
    with_lab(|lab| scenarios::trees::planted(lab));
}

#[test]
fn an_index_tree_is_rejected_when_its_root_is_a_link_or_inside_a_mount() {
    with_lab(|lab| scenarios::trees::root_in_the_way(lab));
}

#[test]
fn the_root_of_an_index_tree_stays_while_mounts_are_in_it() {
    with_lab(|lab| scenarios::trees::with_mounts(lab));
}

#[test]
fn a_busy_unwanted_mount_does_not_stop_the_other_unmounts() {
    with_lab(|lab| scenarios::mounts::only_mounts_goes_on(lab));
}

#[test]
fn a_mount_that_a_foreign_mount_covers_stays() {
    with_lab(|lab| scenarios::mounts::covered(lab));
}

#[test]
fn a_foreign_mount_that_appears_after_the_observation_is_not_unmounted() {
    with_lab(|lab| scenarios::mounts::swapped(lab));
}

#[test]
fn a_foreign_mount_at_the_temporary_mount_point_does_not_stop_the_removal_of_a_file_system() {
    with_lab(|lab| scenarios::file_systems::occupied_temporary_place(lab));
}

#[test]
fn each_rabbits_index_tree_links_only_its_own_computes() {
    with_lab(|lab| scenarios::trees::seventeen_computes(lab));
}

/// Runs a test of logical volumes in a lab, if this kernel has device-mapper.
pub(crate) fn with_lvm(story: impl FnOnce(&Lab)) {
    if gate::open("lvm", missing_requirement()) {
        with_lab(story);
    }
}

fn missing_requirement() -> Option<&'static str> {
    // Open the device node: its existence proves nothing, because it exists as soon as lvm2 is installed.
    if File::open("/dev/mapper/control").is_err() {
        return Some("this kernel has no device-mapper (/dev/mapper/control cannot be opened)");
    }
    (!run("sh", &["-c", "command -v lvm"]).status.success())
        .then_some("lvm is missing: install lvm2")
}

#[test]
fn volumes_are_created_mounted_and_removed() {
    with_lvm(|lab| scenarios::volumes::life(lab));
}

#[test]
fn volumes_stay_active_until_their_last_unmount() {
    with_lvm(|lab| scenarios::volumes::mounted_twice(lab));
}

#[test]
fn volumes_of_one_group_are_removed_one_by_one_and_the_group_last() {
    with_lvm(|lab| scenarios::volumes::shared_group(lab));
}

#[test]
fn volumes_without_a_file_system_are_active_only_on_computes() {
    with_lvm(|lab| scenarios::volumes::raw(lab));
}

#[test]
fn a_volume_over_a_foreign_group_and_a_mount_of_a_missing_volume_are_rejected() {
    with_lvm(|lab| scenarios::volumes::refused(lab));
}

#[test]
fn volumes_are_completed_after_a_crash_or_a_restart() {
    with_lvm(|lab| scenarios::volumes::goes_on(lab));
}

#[test]
fn an_allocation_over_all_drives_is_created_and_deleted() {
    with_lab(|lab| scenarios::allocations::spread(lab));
}

#[test]
fn an_allocation_over_more_drives_than_exist_is_rejected() {
    with_lab(|lab| scenarios::allocations::too_few_drives(lab));
}

#[test]
fn an_allocation_is_completed_after_a_crash() {
    with_lab(|lab| scenarios::allocations::completed(lab));
}

#[test]
fn an_allocation_without_records_is_adopted_from_the_status_whole_or_not_at_all() {
    with_lab(|lab| scenarios::allocations::records_lost(lab));
}
