//! Runs the tests of `scenarios` on the node in memory.
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
fn allocations_life() {
    scenarios::allocations::life(&Memory::new());
}

#[test]
fn allocations_moved() {
    scenarios::allocations::moved(&Memory::new());
}

#[test]
fn allocations_access_is_what_a_node_sees() {
    scenarios::allocations::access_is_what_a_node_sees(&Memory::new());
}

#[test]
fn allocations_reboot() {
    scenarios::allocations::reboot(&Memory::new());
}

#[test]
fn allocations_busy() {
    scenarios::allocations::busy(&Memory::new());
}

#[test]
fn allocations_capacity() {
    scenarios::allocations::capacity(&Memory::new());
}

#[test]
fn file_systems_life() {
    scenarios::file_systems::life(&Memory::new());
}

#[test]
fn file_systems_half_made() {
    scenarios::file_systems::half_made(&Memory::new());
}

#[test]
fn file_systems_leftover_temporary_mount() {
    scenarios::file_systems::leftover_temporary_mount(&Memory::new());
}

#[test]
fn mounts_xfs() {
    scenarios::mounts::xfs(&Memory::new());
}

#[test]
fn mounts_raw() {
    scenarios::mounts::raw(&Memory::new());
}

#[test]
fn mounts_renamed() {
    scenarios::mounts::renamed(&Memory::new());
}

#[test]
fn mounts_bind() {
    scenarios::mounts::bind(&Memory::new());
}

#[test]
fn mounts_only_mounts() {
    scenarios::mounts::only_mounts(&Memory::new());
}

#[test]
fn mounts_wanted_again() {
    scenarios::mounts::wanted_again(&Memory::new());
}

#[test]
fn rejections_occupied() {
    scenarios::rejections::occupied(&Memory::new());
}

#[test]
fn rejections_occupied_by_another_allocation() {
    scenarios::rejections::occupied_by_another_allocation(&Memory::new());
}

#[test]
fn rejections_symlinks() {
    scenarios::rejections::symlinks(&Memory::new());
}

#[test]
fn rejections_wrong_things_in_the_way() {
    scenarios::rejections::wrong_things_in_the_way(&Memory::new());
}

#[test]
fn rejections_through_a_mount() {
    scenarios::rejections::through_a_mount(&Memory::new());
}

#[test]
fn rejections_foreign_signature() {
    scenarios::rejections::foreign_signature(&Memory::new());
}

#[test]
fn rejections_made_for_another() {
    scenarios::rejections::made_for_another(&Memory::new());
}

#[test]
fn rejections_not_made_or_anothers() {
    scenarios::rejections::not_made_or_anothers(&Memory::new());
}

#[test]
fn rejections_profile_sets_uuid() {
    scenarios::rejections::profile_sets_uuid(&Memory::new());
}

#[test]
fn trees_life() {
    scenarios::trees::life(&Memory::new());
}

#[test]
fn trees_planted() {
    scenarios::trees::planted(&Memory::new());
}

#[test]
fn trees_root_in_the_way() {
    scenarios::trees::root_in_the_way(&Memory::new());
}

#[test]
fn trees_with_mounts() {
    scenarios::trees::with_mounts(&Memory::new());
}

#[test]
fn mounts_only_mounts_goes_on() {
    scenarios::mounts::only_mounts_goes_on(&Memory::new());
}

#[test]
fn mounts_deep() {
    scenarios::mounts::deep(&Memory::new());
}

#[test]
fn mounts_kept_elsewhere() {
    scenarios::mounts::kept_elsewhere(&Memory::new());
}

#[test]
fn mounts_covered() {
    scenarios::mounts::covered(&Memory::new());
}

#[test]
fn mounts_swapped() {
    scenarios::mounts::swapped(&Memory::new());
}

#[test]
fn file_systems_occupied_temporary_place() {
    scenarios::file_systems::occupied_temporary_place(&Memory::new());
}

#[test]
fn trees_seventeen_computes() {
    scenarios::trees::seventeen_computes(&Memory::new());
}

#[test]
fn volumes_life() {
    scenarios::volumes::life(&Memory::new());
}

#[test]
fn volumes_mounted_twice() {
    scenarios::volumes::mounted_twice(&Memory::new());
}

#[test]
fn volumes_shared_group() {
    scenarios::volumes::shared_group(&Memory::new());
}

#[test]
fn volumes_raw() {
    scenarios::volumes::raw(&Memory::new());
}

#[test]
fn volumes_refused() {
    scenarios::volumes::refused(&Memory::new());
}

#[test]
fn volumes_goes_on() {
    scenarios::volumes::goes_on(&Memory::new());
}

#[test]
fn allocations_spread() {
    scenarios::allocations::spread(&Memory::new());
}

#[test]
fn allocations_too_few_drives() {
    scenarios::allocations::too_few_drives(&Memory::new());
}

#[test]
fn allocations_completed() {
    scenarios::allocations::completed(&Memory::new());
}

#[test]
fn allocations_records_lost() {
    scenarios::allocations::records_lost(&Memory::new());
}

/// On a real node no one erases namespaces of active volumes, except after a crash.
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

    let nobody = Desired::OnlyVolumes(BTreeSet::new());
    assert_eq!(settle(&rabbit, &nobody), [""; 0], "an existing group stays, whoever owns it");
    let seen = rabbit.observe(&nobody).unwrap();
    assert_eq!(seen.groups.len(), 1);
    assert_eq!((seen.groups[0].devices.len(), seen.mappings[0].on.len()), (2, 2));

    memory.rabbit.erase_drives();
    assert_eq!(settle(&rabbit, &Desired::OnlyVolumes(BTreeSet::from([owner]))), [""; 0]);
    let steps = settle(&rabbit, &nobody);
    assert!(
        steps[0].starts_with("remove mapping ") && steps[1].starts_with("leave the lock space")
    );
    assert!(settle(&rabbit, &nobody).is_empty());
    assert_eq!(rabbit.observe(&nobody).unwrap().lock_spaces, ["global"]);
}

/// An unmount without the profile can only guess the name of the volume.
#[test]
fn a_volume_is_deactivated_under_any_name() {
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

/// A group lacks the member on a pulled drive.
#[test]
fn a_group_lacks_a_lost_drive() {
    let memory = Memory::new();
    let rabbit = memory.rabbit();
    let fs = scenarios::volumes::striped(&memory);
    settle(&rabbit, &Desired::FileSystemReady(fs.clone()));
    let look = || rabbit.observe(&Desired::OnlyVolumes(BTreeSet::new())).unwrap().groups;
    assert_eq!(GroupFacts::from_group(&look()[0]).unwrap().missing, 0);
    let slot = |id: &NamespaceId| {
        let seen = rabbit.observe(&Desired::Inventory).unwrap();
        seen.drives.iter().find(|drive| drive.nqn == id.subsystem).unwrap().slot
    };
    memory.rabbit.pull_drive(slot(&fs.volume.namespaces[1]));
    assert_eq!(GroupFacts::from_group(&look()[0]).unwrap().missing, 1);
}
