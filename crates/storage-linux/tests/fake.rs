//! Runs the tests of `scenarios` on the simulated node in memory ([`FakeHost`]).
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod scenarios;

use std::{collections::BTreeSet, sync::Arc};

use scenarios::{World, node, settle};
use storage::{
    Desired, Host, Step,
    desired::{
        AllowedRoots, FileSystemId, FileSystemKind, LvmLines, Mount, MountPoint, MountSource,
        NamespaceId, Volume, VolumeLayer,
    },
    fake::FakeHost,
    health::GroupFacts,
    observed::{Namespace, Signature},
    step::VolumeAction,
};

struct Memory {
    rabbit: Arc<FakeHost>,
    roots: AllowedRoots,
}

impl Memory {
    fn new() -> Self {
        let roots = AllowedRoots::new(["/mnt/nnf".into(), "/mnt/temp".into()]).unwrap();
        let rabbit = Arc::new(FakeHost::with_drives(node("rabbit-1"), roots.clone(), 4, 1 << 30));
        Self { rabbit, roots }
    }
}

#[derive(Debug)]
struct Kept<'a>(&'a FakeHost);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.0.leave_elsewhere();
    }
}

impl World for Memory {
    fn rabbit(&self) -> Arc<dyn Host> {
        self.rabbit.clone()
    }

    fn compute(&self, name: &str) -> Arc<dyn Host> {
        Arc::new(self.rabbit.peer(node(name)))
    }

    fn point(&self, below: &str) -> MountPoint {
        MountPoint::parse(&format!("/mnt/nnf/{below}"), &self.roots).unwrap()
    }

    fn temporary(&self, below: &str) -> MountPoint {
        MountPoint::parse(&format!("/mnt/temp/{below}"), &self.roots).unwrap()
    }

    fn plant_mount(&self, at: &MountPoint) {
        self.rabbit.plant_mount(at, "tmpfs", "tmpfs");
    }

    fn plant_link(&self, at: &MountPoint, text: &str) {
        self.rabbit.plant_link(at, text);
    }

    fn plant_file(&self, at: &MountPoint) {
        self.rabbit.plant_file(at);
    }

    fn plant_ext4(&self, namespace: &Namespace) {
        self.rabbit
            .plant_signature(&namespace.id, Signature::Foreign { kind: "ext4".into(), uuid: None });
    }

    fn keep_elsewhere<'a>(&'a self, at: &MountPoint) -> Box<dyn std::fmt::Debug + 'a> {
        self.rabbit.keep_elsewhere(at);
        Box::new(Kept(&self.rabbit))
    }

    fn plant_half_made(&self, namespace: &Namespace, id: FileSystemId) {
        self.rabbit.plant_signature(&namespace.id, Signature::HalfMade(id));
    }

    fn label(&self) -> String {
        "rabbit-1".into()
    }

    fn lose_records(&self) {
        self.rabbit.lose_records();
    }

    fn reboot(&self) {
        self.rabbit.reboot();
    }

    fn foreign(&self) -> String {
        self.rabbit.foreign()
    }
}

#[test]
fn an_allocation_is_created_attached_detached_and_deleted() {
    scenarios::allocations::life(&Memory::new());
}

#[test]
fn a_compute_that_moves_to_another_slot_keeps_access_and_its_former_slot_loses_it() {
    scenarios::allocations::moved(&Memory::new());
}

#[test]
fn only_a_node_with_access_to_a_namespace_has_its_device() {
    scenarios::allocations::access_is_what_a_node_sees(&Memory::new());
}

#[test]
fn after_a_reboot_hosts_keep_their_access_to_a_namespace_and_its_device_returns() {
    scenarios::allocations::reboot(&Memory::new());
}

#[test]
fn a_mounted_namespace_is_neither_detached_nor_deleted() {
    scenarios::allocations::busy(&Memory::new());
}

#[test]
fn allocations_of_no_bytes_or_of_too_many_bytes_are_rejected() {
    scenarios::allocations::capacity(&Memory::new());
}

#[test]
fn a_file_system_is_created_once_and_torn_down_once() {
    scenarios::file_systems::life(&Memory::new());
}

#[test]
fn the_remains_of_a_killed_mkfs_are_wiped_and_mkfs_runs_again() {
    scenarios::file_systems::half_made(&Memory::new());
}

#[test]
fn a_leftover_temporary_mount_is_used_and_unmounted() {
    scenarios::file_systems::leftover_temporary_mount(&Memory::new());
}

#[test]
fn an_xfs_is_mounted_with_its_owner_and_unmounted() {
    scenarios::mounts::xfs(&Memory::new());
}

#[test]
fn a_raw_volume_is_mounted_as_a_device_bound_on_a_file() {
    scenarios::mounts::raw(&Memory::new());
}

#[test]
fn a_mount_fails_when_the_name_of_its_device_moved_to_another_namespace() {
    scenarios::mounts::renamed(&Memory::new());
}

#[test]
fn a_bind_mount_can_be_unmounted_after_the_mount_that_it_shows() {
    scenarios::mounts::bind(&Memory::new());
}

#[test]
fn the_clean_up_leaves_only_desired_and_foreign_mounts() {
    scenarios::mounts::only_mounts(&Memory::new());
}

#[test]
fn hooks_run_again_when_a_mount_is_wanted_again() {
    scenarios::mounts::wanted_again(&Memory::new());
}

#[test]
fn a_mount_point_with_a_foreign_mount_is_rejected() {
    scenarios::rejections::occupied(&Memory::new());
}

#[test]
fn a_mount_point_with_a_mount_of_another_allocation_is_rejected() {
    scenarios::rejections::occupied_by_another_allocation(&Memory::new());
}

#[test]
fn a_mount_point_beneath_a_symbolic_link_is_rejected() {
    scenarios::rejections::symlinks(&Memory::new());
}

#[test]
fn a_mount_point_of_the_wrong_type_or_with_contents_is_rejected() {
    scenarios::rejections::wrong_things_in_the_way(&Memory::new());
}

#[test]
fn a_mount_point_inside_another_mount_is_rejected() {
    scenarios::rejections::through_a_mount(&Memory::new());
}

#[test]
fn a_device_with_a_foreign_signature_is_rejected() {
    scenarios::rejections::foreign_signature(&Memory::new());
}

#[test]
fn a_namespace_with_a_reused_nsid_is_not_taken_for_the_former_namespace() {
    scenarios::rejections::made_for_another(&Memory::new());
}

#[test]
fn a_device_without_a_file_system_or_with_another_one_is_not_mounted() {
    scenarios::rejections::not_made_or_anothers(&Memory::new());
}

#[test]
fn a_mkfs_line_that_sets_the_uuid_is_rejected() {
    scenarios::rejections::profile_sets_uuid(&Memory::new());
}

#[test]
fn an_index_tree_is_created_changed_and_removed() {
    scenarios::trees::life(&Memory::new());
}

#[test]
fn a_wrong_link_in_an_index_tree_is_corrected_and_foreign_files_stay() {
    scenarios::trees::planted(&Memory::new());
}

#[test]
fn an_index_tree_is_rejected_when_its_root_is_a_link_or_inside_a_mount() {
    scenarios::trees::root_in_the_way(&Memory::new());
}

#[test]
fn the_root_of_an_index_tree_stays_while_mounts_are_in_it() {
    scenarios::trees::with_mounts(&Memory::new());
}

#[test]
fn a_busy_unwanted_mount_does_not_stop_the_other_unmounts() {
    scenarios::mounts::only_mounts_goes_on(&Memory::new());
}

#[test]
fn empty_directories_that_were_created_for_a_mount_are_removed_with_it() {
    scenarios::mounts::deep(&Memory::new());
}

#[test]
fn a_volume_in_use_in_another_mount_namespace_is_not_released() {
    scenarios::mounts::kept_elsewhere(&Memory::new());
}

#[test]
fn a_mount_that_a_foreign_mount_covers_stays() {
    scenarios::mounts::covered(&Memory::new());
}

#[test]
fn a_foreign_mount_that_appears_after_the_observation_is_not_unmounted() {
    scenarios::mounts::swapped(&Memory::new());
}

#[test]
fn a_foreign_mount_at_the_temporary_mount_point_does_not_stop_the_removal_of_a_file_system() {
    scenarios::file_systems::occupied_temporary_place(&Memory::new());
}

#[test]
fn each_rabbits_index_tree_links_only_its_own_computes() {
    scenarios::trees::seventeen_computes(&Memory::new());
}

#[test]
fn volumes_are_created_mounted_and_removed() {
    scenarios::volumes::life(&Memory::new());
}

#[test]
fn volumes_stay_active_until_their_last_unmount() {
    scenarios::volumes::mounted_twice(&Memory::new());
}

#[test]
fn volumes_of_one_group_are_removed_one_by_one_and_the_group_last() {
    scenarios::volumes::shared_group(&Memory::new());
}

#[test]
fn volumes_without_a_file_system_are_active_only_on_computes() {
    scenarios::volumes::raw(&Memory::new());
}

#[test]
fn a_volume_over_a_foreign_group_and_a_mount_of_a_missing_volume_are_rejected() {
    scenarios::volumes::refused(&Memory::new());
}

#[test]
fn volumes_are_completed_after_a_crash_or_a_restart() {
    scenarios::volumes::goes_on(&Memory::new());
}

#[test]
fn an_allocation_over_all_drives_is_created_and_deleted() {
    scenarios::allocations::spread(&Memory::new());
}

#[test]
fn an_allocation_over_more_drives_than_exist_is_rejected() {
    scenarios::allocations::too_few_drives(&Memory::new());
}

#[test]
fn an_allocation_is_completed_after_a_crash() {
    scenarios::allocations::completed(&Memory::new());
}

#[test]
fn an_allocation_without_records_is_adopted_from_the_status_whole_or_not_at_all() {
    scenarios::allocations::records_lost(&Memory::new());
}

/// On a real node, only a crash can lead to the erasure of namespaces whose volume is still active.
#[test]
fn leftovers_of_erased_volumes_are_removed() {
    let memory = Memory::new();
    let rabbit = memory.rabbit();
    let owner = scenarios::uid(7);
    let mut fs = scenarios::volumes::striped(&memory);
    fs.volume.group = format!("{owner}_0");
    fs.volume.layer = VolumeLayer::Lvm(Box::new(scenarios::volumes::lines(&fs.volume)));
    settle(&rabbit, &Desired::FileSystemReady(fs.clone()));
    let (on, line) = (fs.volume.to_string(), String::new());
    let action = VolumeAction::Activate;
    rabbit.apply(&Step::Volume { action, on, devices: Vec::new(), line }).unwrap();
    memory.rabbit.plant_lock_space(&fs.volume.group);
    memory.rabbit.plant_lock_space("global");

    let keep_none = Desired::OnlyVolumes(BTreeSet::new());
    assert_eq!(settle(&rabbit, &keep_none), [""; 0], "an existing group stays, whoever owns it");
    let observed = rabbit.observe(&keep_none).unwrap();
    assert_eq!(observed.groups.len(), 1);
    assert_eq!((observed.groups[0].devices.len(), observed.mappings[0].on.len()), (2, 2));

    memory.rabbit.erase_drives();
    assert_eq!(settle(&rabbit, &Desired::OnlyVolumes(BTreeSet::from([owner]))), [""; 0]);
    let steps = settle(&rabbit, &keep_none);
    assert!(
        steps[0].starts_with("remove mapping ") && steps[1].starts_with("leave the lock space")
    );
    assert!(settle(&rabbit, &keep_none).is_empty());
    assert_eq!(rabbit.observe(&keep_none).unwrap().lock_spaces, ["global"]);
}

/// Without the profile, the names in the desired state are only a guess: the agent takes the names from LVM's metadata.
#[test]
fn an_unmount_with_guessed_names_deactivates_the_volume_that_lvm_finds() {
    for kind in [FileSystemKind::Raw, FileSystemKind::Gfs2] {
        let memory = Memory::new();
        let mut fs = scenarios::volumes::striped(&memory);
        (fs.kind, fs.mkfs) = (kind, fs.mkfs.filter(|_| kind != FileSystemKind::Raw));
        let mut lines = scenarios::volumes::lines(&fs.volume);
        lines.lock_start = scenarios::command("--lock-start");
        fs.volume.layer = VolumeLayer::Lvm(Box::new(lines));
        settle(&memory.rabbit(), &Desired::FileSystemReady(fs.clone()));
        let compute = memory.compute("compute-1");
        let mount = scenarios::mount_of(&fs, memory.point("wf"));
        settle(&compute, &Desired::Mounted(mount.clone()));

        let lines = LvmLines {
            lock_stop: scenarios::command("--lock-stop $VG_NAME"),
            deactivate: scenarios::command("--activate n $VG_NAME/$LV_NAME"),
            leaves_lock_space: true,
            finds_names: true,
            ..LvmLines::default()
        };
        let layer = VolumeLayer::Lvm(Box::new(lines));
        let guess = Volume { group: "guess".into(), logical: "lv-3".into(), layer, ..fs.volume };
        let guessed = MountSource::Volume { volume: guess, id: fs.id };
        let gone = Desired::Unmounted(Mount { source: guessed, ..mount });
        let steps = settle(&compute, &gone).join("\n");
        let is_there = |name: String| assert!(steps.contains(&name), "{name}: {steps}");
        is_there("unmount ".to_owned());
        is_there(format!("--activate n {}/{}", fs.volume.group, fs.volume.logical));
        is_there(format!("--lock-stop {}", fs.volume.group));
        assert!(settle(&compute, &gone).is_empty());
    }
}

/// A group on two drives, one of which is pulled.
#[test]
fn a_group_has_a_missing_member_after_its_drive_was_pulled() {
    let memory = Memory::new();
    let rabbit = memory.rabbit();
    let fs = scenarios::volumes::striped(&memory);
    settle(&rabbit, &Desired::FileSystemReady(fs.clone()));
    let look = || rabbit.observe(&Desired::OnlyVolumes(BTreeSet::new())).unwrap().groups;
    assert_eq!(GroupFacts::from_group(&look()[0]).unwrap().missing, 0);
    let slot = |id: &NamespaceId| {
        let observed = rabbit.observe(&Desired::Inventory).unwrap();
        observed.drives.iter().find(|drive| drive.nqn == id.subsystem).unwrap().slot
    };
    memory.rabbit.pull_drive(slot(&fs.volume.namespaces[1]));
    assert_eq!(GroupFacts::from_group(&look()[0]).unwrap().missing, 1);
}
