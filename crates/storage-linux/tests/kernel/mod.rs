//! Tests behaviour that only a real kernel has.

mod cuts;
mod health;
mod kept;
mod refused;
mod silent;
mod traced;

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::symlink,
    sync::Arc,
    time::Duration,
};

use causes::CommandError;
use storage::{
    ConvergeError, Converger, Desired, Rejection, Step,
    desired::{
        Allocation, FileSystem, FileSystemKind, HookPoint, IndexLink, IndexTree, Mount, Reported,
        Spread,
    },
    host::StepError,
    observed::{DeviceNumber, Signature},
    plan::allocatable,
};
use tempfile::TempDir;

use crate::{
    by_hand::{must, start},
    lab::{Lab, with_lab},
    scenarios::{
        SIZE, World, allocate, allocation, chain, command, converge, create_file_system,
        file_system, hook, mount_of, namespace, rejected, settle, signature,
    },
};

fn file_system_with_mkfs(lab: &Lab, mkfs: &str) -> FileSystem {
    let namespace = allocate(lab, &allocation(0, SIZE, &[]));
    let mut fs = file_system(lab, 0, &namespace.id);
    fs.mkfs = command(mkfs);
    fs
}

fn settle_with_valid_mkfs_line(lab: &Lab, mut fs: FileSystem) {
    fs.mkfs = command("$DEVICE");
    settle(&lab.rabbit(), &Desired::FileSystemReady(fs.clone()));
    settle(&lab.rabbit(), &Desired::Mounted(mount_of(&fs, lab.point("mended"))));
}

#[test]
fn a_failing_mkfs_is_reported_with_its_stderr() {
    with_lab(|lab| {
        let fs = file_system_with_mkfs(lab, "-d nonsense=1 $DEVICE");
        let error = converge(&lab.rabbit(), &Desired::FileSystemReady(fs.clone())).unwrap_err();
        assert!(chain(&error).contains("unknown option -d nonsense"), "{}", chain(&error));
        settle_with_valid_mkfs_line(lab, fs);
    });
}

#[test]
fn a_mkfs_that_succeeds_but_makes_no_file_system_is_a_failure() {
    with_lab(|lab| {
        let fs = file_system_with_mkfs(lab, "-V # $DEVICE");
        let error = converge(&lab.rabbit(), &Desired::FileSystemReady(fs.clone())).unwrap_err();
        assert!(chain(&error).contains("does not exist"), "{}", chain(&error));
        settle_with_valid_mkfs_line(lab, fs);
    });
}

/// The device ends before the offsets at which the agent looks for superblocks.
#[test]
fn a_device_too_small_for_a_file_system_is_rejected_with_numbers_and_removed() {
    with_lab(|lab| {
        let rabbit = lab.rabbit();
        for (requested, size) in [(1, 4096), (4097, 8192), (65_536, 65_536), (64 << 20, 64 << 20)] {
            let wanted = allocation(0, requested, &[]);
            let created = allocate(lab, &wanted);
            let fs = file_system(lab, 0, &created.id);
            let rejection = rejected(lab, &rabbit, &Desired::FileSystemReady(fs.clone()));
            let text = rejection.to_string();
            assert!(
                matches!(&rejection, Rejection::TooSmall(refused) if refused.size == size && !refused.why.is_empty()),
                "{text}"
            );
            assert!(text.ends_with("ask for at least 314572800 bytes"), "{text}");
            settle(&rabbit, &Desired::FileSystemGone(fs));
            settle(&rabbit, &Desired::Released(wanted.id));
            assert_eq!(namespace(lab, wanted.id), None);
        }
    });
}

/// The device is too small, but mkfs fails because its line has a mistake or a program is missing: the error must not
/// be `TooSmall`.
#[test]
fn a_mkfs_that_fails_on_a_small_device_for_another_reason_is_a_plain_failure() {
    with_lab(|lab| {
        let created = allocate(lab, &allocation(0, 64 << 20, &[]));
        let mut fs = file_system(lab, 0, &created.id);
        for line in ["-d nonsense=1 $DEVICE", "-V >/dev/null; missing-tool $DEVICE"] {
            fs.mkfs = command(line);
            let error = converge(&lab.rabbit(), &Desired::FileSystemReady(fs.clone())).unwrap_err();
            assert!(matches!(error, ConvergeError::Step(_)), "{}", chain(&error));
        }
    });
}

#[test]
fn a_file_system_on_an_unreadable_device_is_torn_down_unless_a_hook_needs_it() {
    with_lab(|lab| {
        let (namespace, mut fs) = create_file_system(lab, 0);
        let data = fs::read_to_string(backing_file(&lab.device(&namespace))).unwrap();
        // Reads beyond the end of the backing file fail with EIO.
        File::options().write(true).open(data.trim_end()).unwrap().set_len(0).unwrap();
        must("blockdev", &["--flushbufs", &lab.device(&namespace)]);
        let rabbit = lab.rabbit();
        let unread = rabbit.observe(&Desired::FileSystemReady(fs.clone())).unwrap_err();
        assert!(chain(&unread).contains("os error 5"), "{}", chain(&unread));
        settle(&rabbit, &Desired::FileSystemGone(fs.clone()));
        // A hook that needs the file system must not be skipped without an error.
        fs.hooks.push(hook(fs.scope(), HookPoint::PreTeardown, "true"));
        rabbit.observe(&Desired::FileSystemGone(fs)).unwrap_err();
        settle(&rabbit, &Desired::Released(allocation(0, 0, &[]).id));
    });
}

fn backing_file(device: &str) -> String {
    format!("/sys/block/{}/loop/backing_file", device.trim_start_matches("/dev/"))
}

#[test]
fn mkfs_that_hangs_is_killed_with_all_its_children() {
    with_lab(|_| {
        let short = Lab::with_deadline(Duration::from_secs(5));
        let fifo = short.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let stuck = file_system_with_mkfs(
            &short,
            &format!("-V; exec 3> {}; sleep 3600 | cat", fifo.display()),
        );
        // The read reaches end of file when the last process that inherited descriptor 3 is dead.
        let all_dead = std::thread::spawn(move || fs::read(fifo).unwrap());
        let error =
            converge(&short.rabbit(), &Desired::FileSystemReady(stuck.clone())).unwrap_err();
        let ConvergeError::Step(failed) = &error else { panic!("{}", chain(&error)) };
        let timed_out = matches!(failed.source, StepError::Command(CommandError::TimedOut { .. }));
        assert!(timed_out, "{}", chain(&error));
        assert_eq!(all_dead.join().unwrap(), b"");
        let observed = short.rabbit().observe(&Desired::FileSystemReady(stuck)).unwrap();
        assert_eq!(observed.volume.unwrap().signature, Some(Signature::Blank));
    });
}

/// mkfs is killed at many moments: with nothing written, with `sb_inprogress` set, or with everything written. In each
/// case the file system converges.
#[test]
fn a_file_system_whose_mkfs_was_killed_converges() {
    with_lab(|lab| {
        for moment in 1..=20 {
            let mut fs = file_system_with_mkfs(
                lab,
                &format!("$DEVICE & sleep 0.{moment:03}; kill -9 $!; wait $!"),
            );
            // The command fails or succeeds, depending on the moment at which it is killed.
            let _ = converge(&lab.rabbit(), &Desired::FileSystemReady(fs.clone()));
            let signature_after_kill = signature(&lab.rabbit(), &fs);
            assert!(
                !matches!(signature_after_kill, Some(Signature::Foreign { .. })),
                "{signature_after_kill:?}"
            );
            fs.mkfs = command("$DEVICE");
            settle(&lab.rabbit(), &Desired::FileSystemReady(fs.clone()));
            let mount = mount_of(&fs, lab.point("a"));
            settle(&lab.rabbit(), &Desired::Mounted(mount.clone()));
            settle(&lab.rabbit(), &Desired::Unmounted(mount));
            settle(&lab.rabbit(), &Desired::Released(allocation(0, 0, &[]).id));
        }
    });
}

#[test]
fn an_allocation_is_rejected_with_numbers_when_the_disk_of_the_file_drives_is_full() {
    with_lab(|lab| {
        let directory = TempDir::with_prefix("warren-loop-full-").unwrap();
        let pool = directory.path().join("pool");
        fs::create_dir(&pool).unwrap();
        must("mount", &["-t", "tmpfs", "-o", "size=64m", "tmpfs", pool.to_str().unwrap()]);
        let full = Lab::on(directory, 2, 1 << 30, lab.command_deadline);
        let rejection =
            rejected(&full, &full.rabbit(), &Desired::Allocated(allocation(0, SIZE, &[])));
        assert!(matches!(rejection, Rejection::PoolFull { requested: SIZE, .. }), "{rejection}");
        // A sparse file counts with its whole size: when there is room for only one of two allocations, the second is
        // refused.
        let half = 40 << 20;
        settle(&full.rabbit(), &Desired::Allocated(allocation(0, half, &[])));
        let rejection =
            rejected(&full, &full.rabbit(), &Desired::Allocated(allocation(1, half, &[])));
        assert!(
            matches!(rejection, Rejection::PoolFull { promised, .. } if promised == half),
            "{rejection}"
        );
        // Two units observed the same free bytes, so the step checks the free bytes again before it creates the file.
        let drive = full.rabbit().observe(&Desired::Inventory).unwrap().drives[1].nqn.clone();
        let second_creation = Step::CreateNamespace {
            allocation: allocation(1, 0, &[]).id,
            drive,
            size: half,
            members: 1,
        };
        let error = full.rabbit().apply(&second_creation).unwrap_err();
        assert!(matches!(error, StepError::Changed(_)), "{}", chain(&error));
        // An allocation can take all remaining bytes.
        let free_bytes =
            allocatable(&full.rabbit().observe(&Desired::Inventory).unwrap(), Spread::ONE);
        assert!(free_bytes < half, "{free_bytes}");
        settle(&full.rabbit(), &Desired::Allocated(allocation(1, free_bytes, &[])));
    });
}

#[test]
fn a_file_drive_whose_directory_was_moved_away_is_faulty_until_it_is_put_back() {
    with_lab(|lab| {
        let (rabbit, wanted) = (lab.rabbit(), allocation(0, SIZE, &[]));
        let created = allocate(lab, &wanted);
        let reported =
            vec![Reported { id: created.id.clone(), size: created.size, contested: false }];
        let wanted = Desired::Allocated(Allocation { reported, ..wanted });
        let (drive, aside) = (lab.path().join("pool/drive-0"), lab.path().join("aside"));
        fs::rename(&drive, &aside).unwrap();
        let observed = rabbit.observe(&Desired::Inventory).unwrap();
        let fault = format!("its directory {} is missing: put it back", drive.display());
        assert_eq!(
            (observed.drives[0].free(), observed.drives[0].fault.as_ref()),
            (0, Some(&fault))
        );
        let rejection = rejected(lab, &rabbit, &wanted);
        assert!(rejection.to_string().contains(&fault), "{rejection}");
        assert!(allocate(lab, &allocation(1, SIZE, &[])).id.subsystem != created.id.subsystem);

        fs::rename(&aside, &drive).unwrap();
        settle(&rabbit, &wanted);
        assert_eq!(namespace(lab, allocation(0, 0, &[]).id), Some(created));
    });
}

#[test]
fn a_busy_mount_is_reported_with_its_holders() {
    with_lab(|lab| {
        let (_, fs) = create_file_system(lab, 0);
        let mount = mount_of(&fs, lab.point("a"));
        settle(&lab.rabbit(), &Desired::Mounted(mount.clone()));
        let held = File::create(mount.target.path().join("held")).unwrap();
        let error = converge(&lab.rabbit(), &Desired::Unmounted(mount.clone())).unwrap_err();
        let me = format!("held by process {}", std::process::id());
        assert!(chain(&error).contains(&me), "{}", chain(&error));
        drop(held);
        settle(&lab.rabbit(), &Desired::Unmounted(mount));
    });
}

#[test]
fn twenty_mounts_run_in_parallel() {
    with_lab(|lab| {
        let converger = Converger::new(lab.rabbit());
        let all = |desired: Vec<Desired>| {
            for result in converger.converge_all(&desired) {
                result.unwrap_or_else(|error| panic!("{}", chain(&error)));
            }
        };
        let range = 0..20;
        all(range.clone().map(|index| Desired::Allocated(allocation(index, SIZE, &[]))).collect());
        let systems: Vec<_> = range
            .clone()
            .map(|index| {
                let namespace =
                    crate::scenarios::namespace(lab, allocation(index, 0, &[]).id).unwrap();
                file_system(lab, index, &namespace.id)
            })
            .collect();
        all(systems.iter().cloned().map(Desired::FileSystemReady).collect());
        let mounts: Vec<Mount> = systems
            .iter()
            .zip(range.clone())
            .map(|(fs, index)| mount_of(fs, lab.point(&format!("wf-0/node-{index}"))))
            .collect();
        all(mounts.iter().cloned().map(Desired::Mounted).collect());
        all(mounts.iter().cloned().map(Desired::Unmounted).collect());
        assert_eq!(fs::read_dir(lab.path().join("mnt")).unwrap().count(), 0);
        all(range.map(|index| Desired::Released(allocation(index, 0, &[]).id)).collect());
        assert_eq!(
            must("losetup", &["--list", "--raw", "-O", "BACK-FILE"])
                .matches(lab.path().to_str().unwrap())
                .count(),
            0
        );
    });
}

/// The mount table shows a root's path with symbolic links resolved.
#[test]
fn mounts_beneath_a_root_that_is_a_link_are_found() {
    with_lab(|_| {
        let directory = TempDir::with_prefix("warren-loop-link-").unwrap();
        fs::create_dir(directory.path().join("elsewhere")).unwrap();
        symlink("elsewhere", directory.path().join("mnt")).unwrap();
        let lab = Lab::on(directory, 1, 1 << 30, Duration::from_secs(60));
        let (_, fs) = create_file_system(&lab, 0);
        let mount = mount_of(&fs, lab.point("a"));
        settle(&lab.rabbit(), &Desired::Mounted(mount.clone()));
        lab.plant_mount(&mount.target);
        let covered = rejected(&lab, &lab.rabbit(), &Desired::Unmounted(mount.clone()));
        assert!(matches!(covered, Rejection::Covered { .. }), "{covered}");
        must("umount", &[mount.target.path().to_str().unwrap()]);
        assert_eq!(settle(&lab.rabbit(), &Desired::OnlyMounts(vec![])).len(), 2);
    });
}

/// A covered mount can be seen only in the mount table.
#[test]
fn a_covered_raw_volume_is_recognised_by_its_device() {
    with_lab(|lab| {
        let namespace = allocate(lab, &allocation(0, SIZE, &[]));
        let mut fs = file_system(lab, 0, &namespace.id);
        fs.kind = FileSystemKind::Raw;
        let mount = mount_of(&fs, lab.point("raw-0"));
        settle(&lab.rabbit(), &Desired::Mounted(mount.clone()));
        let (file, target) = (lab.path().join("file"), mount.target.path());
        fs::write(&file, "somebody's").unwrap();
        must("mount", &["--bind", file.to_str().unwrap(), target.to_str().unwrap()]);
        let rejection = rejected(lab, &lab.rabbit(), &Desired::Unmounted(mount.clone()));
        assert!(matches!(rejection, Rejection::Covered { .. }), "{rejection}");
        must("umount", &[target.to_str().unwrap()]);
        settle(&lab.rabbit(), &Desired::Unmounted(mount));
    });
}

#[test]
fn a_link_that_a_user_plants_in_an_index_tree_is_not_followed() {
    with_lab(|lab| {
        let (_, fs) = create_file_system(lab, 0);
        let mount = mount_of(&fs, lab.point("wf-0/node-0"));
        settle(&lab.rabbit(), &Desired::Mounted(mount.clone()));
        let inside = mount.target.path();
        symlink("/etc", inside.join("compute-1")).unwrap();
        symlink("/etc", inside.join("node-1")).unwrap();
        let link = IndexLink::new("compute-1", "node-0").unwrap();
        let tree = IndexTree { root: lab.point("wf-0"), links: vec![link] };
        settle(&lab.rabbit(), &Desired::IndexTree(tree.clone()));
        settle(&lab.rabbit(), &Desired::NoIndexTree(tree));
        assert_eq!(fs::read_link(inside.join("compute-1")).unwrap().to_str(), Some("/etc"));
    });
}

/// The temporary mount of a failing hook stays for the next attempt; the removal of the file system unmounts it.
#[test]
fn a_failing_hook_is_reported_and_retried() {
    with_lab(|lab| {
        let mut fs = file_system_with_mkfs(lab, "$DEVICE");
        let mark = lab.path().join("mark");
        let line = format!("echo trouble >&2; test -e {}", mark.display());
        fs.hooks.push(hook(fs.scope(), HookPoint::PostSetup, &line));
        let rabbit = lab.rabbit();
        let ready = Desired::FileSystemReady(fs.clone());
        let error = converge(&rabbit, &ready).unwrap_err();
        assert!(
            chain(&error).starts_with("run hook postSetup[0]")
                && chain(&error).ends_with("trouble")
        );
        assert!(rabbit.observe(&ready).unwrap().temporary.unwrap().mounted.is_some());
        settle(&rabbit, &Desired::FileSystemGone(fs.clone()));
        assert!(!fs.temporary.path().exists());

        converge(&rabbit, &ready).unwrap_err();
        fs::write(mark, "").unwrap();
        settle(&rabbit, &ready);
        assert!(!fs.temporary.path().exists());
    });
}

/// Another process plants a link between the observation and the step.
#[test]
fn a_link_planted_between_observation_and_step_is_not_followed() {
    with_lab(|lab| {
        let (_, fs) = create_file_system(lab, 0);
        let mount = mount_of(&fs, lab.point("dir/a"));
        let converger = Converger::new(lab.rabbit());
        let plan = converger.plan(&Desired::Mounted(mount.clone())).unwrap();
        let elsewhere = TempDir::new().unwrap();
        fs::create_dir(elsewhere.path().join("a")).unwrap();
        fs::create_dir_all(lab.path().join("mnt")).unwrap();
        symlink(elsewhere.path(), lab.path().join("mnt/dir")).unwrap();
        for step in plan {
            let error = lab.rabbit().apply(&step).unwrap_err();
            assert!(matches!(error, StepError::Changed(_)), "{step}: {}", chain(&error));
        }
        let (device, line) = (DeviceNumber { major: 7, minor: 0 }, mount.target.to_string());
        let unmount = Step::Unmount { target: mount.target.clone(), device, line };
        lab.rabbit().apply(&unmount).unwrap();
        lab.rabbit().apply(&Step::RemoveMountPoint { target: mount.target }).unwrap();
        assert!(elsewhere.path().join("a").exists());
    });
}

#[test]
fn mount_lines_with_options_of_mount_8_are_run_by_mount_8() {
    with_lab(|lab| {
        let (_, fs) = create_file_system(lab, 0);
        let mut mount = mount_of(&fs, lab.point("a b;c"));
        mount.mount = command("-o _netdev,noatime $DEVICE $MOUNT_PATH");
        mount.unmount = command("-v \"$MOUNT_PATH\"");
        settle(&lab.rabbit(), &Desired::Mounted(mount.clone()));
        settle(&lab.rabbit(), &Desired::Unmounted(mount));
    });
}

#[test]
fn a_mount_line_that_mounts_at_another_path_is_a_failure() {
    with_lab(|lab| {
        let (_, fs) = create_file_system(lab, 0);
        let elsewhere = lab.point("elsewhere");
        fs::create_dir_all(elsewhere.path()).unwrap();
        let mut mount = mount_of(&fs, lab.point("a"));
        mount.mount = command(&format!("$DEVICE {elsewhere}"));
        let error = converge(&lab.rabbit(), &Desired::Mounted(mount)).unwrap_err();
        assert!(chain(&error).contains("nothing is mounted there"), "{}", chain(&error));
    });
}

/// The mount is in another mount namespace, so the agent's own mount table does not show it.
#[test]
fn a_device_mounted_only_in_another_mount_namespace_is_reported_with_its_holder() {
    with_lab(|lab| {
        let (namespace, fs) = create_file_system(lab, 0);
        let point = lab.point("elsewhere");
        fs::create_dir_all(point.path()).unwrap();
        let script =
            format!("mount {} {point} && echo mounted && read wait", lab.device(&namespace));
        let mut other = start("unshare", &["-m", "--propagation", "private", "sh", "-c", &script]);
        let mut answer = [0; 8];
        other.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();

        let release = Desired::Released(allocation(0, 0, &[]).id);
        let error = chain(&converge(&lab.rabbit(), &release).unwrap_err());
        assert!(
            error.contains(&format!("process {} (sh, since ", other.id()))
                && error.contains(&format!("another mount namespace, where it is on {point}")),
            "{error}"
        );
        assert_eq!(signature(&lab.rabbit(), &fs), Some(Signature::Ours(fs.id)));
        drop(other.stdin.take());
        other.wait().unwrap();
        settle(&lab.rabbit(), &release);
    });
}

/// Foreign files in a pool directory are neither counted nor changed.
#[test]
fn foreign_files_in_a_pool_stay() {
    with_lab(|lab| {
        let drive = lab.path().join("pool/drive-0");
        fs::create_dir_all(drive.join("7")).unwrap();
        fs::write(drive.join("7/data"), "precious").unwrap();
        fs::create_dir_all(drive.join("lost+found")).unwrap();
        let wanted = allocation(0, SIZE, &[]);
        allocate(lab, &wanted);
        settle(&lab.rabbit(), &Desired::Released(wanted.id));
        assert_eq!(fs::read(drive.join("7/data")).unwrap(), b"precious");
        assert!(drive.join("lost+found").exists());
    });
}

/// The next round removes the files that a crash left during a creation or a deletion.
#[test]
fn files_that_a_crash_left_in_a_pool_are_removed() {
    with_lab(|lab| {
        let wanted = allocation(0, SIZE, &[]);
        let drive = lab.path().join("pool/drive-1");
        for left in [format!(".new-1-{}", wanted.id), format!(".gone-4-{}", wanted.id)] {
            fs::create_dir(drive.join(&left)).unwrap();
            fs::write(drive.join(left).join("data"), "half").unwrap();
        }
        let steps = settle(&lab.rabbit(), &Desired::Allocated(wanted.clone()));
        assert_eq!(steps.iter().filter(|step| step.starts_with("delete")).count(), 2, "{steps:?}");
        settle(&lab.rabbit(), &Desired::Released(wanted.id));
        assert_eq!(fs::read_dir(drive).unwrap().count(), 0);
    });
}

#[test]
fn two_agents_of_one_machine_allocate_from_one_pool_at_the_same_time() {
    with_lab(|lab| {
        let rabbit = lab.rabbit();
        let hosts = [Arc::clone(&rabbit), lab.compute("rabbit-1")];
        std::thread::scope(|scope| {
            for (host, first) in hosts.iter().zip([0, 8]) {
                scope.spawn(move || {
                    for index in first..first + 8 {
                        settle(host, &Desired::Allocated(allocation(index, SIZE, &[])));
                    }
                });
            }
        });
        let observed = rabbit.observe(&Desired::Inventory).unwrap();
        assert_eq!(observed.namespaces.len(), 16);
        let devices: std::collections::BTreeSet<_> =
            observed.namespaces.iter().map(|namespace| namespace.device.clone().unwrap()).collect();
        assert_eq!(devices.len(), 16);
    });
}
