use super::*;

#[test]
fn the_users_text_has_only_the_problem_and_the_debug_text_also_the_remedy() {
    let volume = || "group/lv".to_owned();
    let foreign = Rejection::ForeignSignature {
        device: "/dev/loop0".into(),
        kind: "ext4".into(),
        uuid: Some("4711".into()),
    };
    let broken = Rejection::PoolBroken { pool: "pool-0".into(), state: "FAULTED".into() };
    let many = Rejection::TooManyDevices { volume: volume(), count: 2 };
    let no_device = Rejection::NoDevice { volume: volume(), missing: Vec::new() };
    for (rejection, problem, remedy) in [
        (foreign, "4711", "wipe it by hand"),
        (broken, "zpool pool-0 is FAULTED", "bring its drives back"),
        (many, "group/lv has 2 namespaces", "--volumes lvm"),
        (no_device, "no device for group/lv", "check the PCIe link"),
    ] {
        let failure = Failure::of_convergence(&ConvergeError::Rejected(rejection));
        assert!(failure.debug.contains(remedy), "{}", failure.debug);
        let user = &failure.user;
        assert!(user.contains(problem) && user.ends_with(ASK_ADMINISTRATORS), "{user}");
        assert!(!user.contains(remedy), "{user}");
    }
}

#[test]
fn only_the_text_for_administrators_advises_to_change_the_mount_roots() {
    let source = MountPointError::OutsideRoots { path: "/etc/x".into(), roots: "/mnt/nnf".into() };
    let problem = MountProblem::MountPath(source);
    let failure = Failure::from(&MountError { index: 0, path: "/etc/x".into(), problem });
    assert!(failure.user.ends_with("use a path under /mnt/nnf"), "{}", failure.user);
    assert!(failure.debug.ends_with("with another --mount-root"), "{}", failure.debug);
}

#[test]
fn the_failure_of_a_busy_umount_names_errno_and_is_retried_soon() {
    let target = storage::desired::AllowedRoots::new(["/mnt/nnf".into()])
        .and_then(|roots| storage::desired::MountPoint::parse("/mnt/nnf/a", &roots))
        .unwrap();
    let error = ConvergeError::Step(ExecuteError {
        step: Box::new(Step::Unmount {
            target,
            device: storage::observed::DeviceNumber { major: 7, minor: 0 },
            line: "/mnt/nnf/a".into(),
        }),
        source: StepError::System {
            call: "umount(2)",
            target: "/mnt/nnf/a".into(),
            source: io::Error::from_raw_os_error(16),
        },
    });
    let failure = Failure::of_mount(Goal::Unmounted, &error);
    assert_eq!((failure.severity, failure.retry), (Severity::Minor, Retry::Soon));
    assert!(
        failure.debug.starts_with("unable to unmount file system: unmount /mnt/nnf/a"),
        "{}",
        failure.debug
    );
    assert!(failure.debug.ends_with("Device or resource busy (os error 16)"), "{}", failure.debug);
}

#[test]
fn the_holders_of_several_mounts_are_all_reported() {
    let in_use = |processes: &[i32]| StepError::Held {
        call: "umount(2)",
        target: "/mnt/nnf/job-0".into(),
        holders: storage::observed::Holders { names: Vec::new(), processes: processes.into() },
        source: io::Error::from_raw_os_error(16),
    };
    let failure_of = |source| {
        let step = Step::RemoveMapping {
            name: "group-volume".into(),
            number: storage::observed::DeviceNumber { major: 253, minor: 0 },
        };
        ExecuteError { step: Box::new(step), source }
    };
    let others =
        vec![failure_of(StepError::Changed("a mount".into())), failure_of(in_use(&[9, 7]))];
    let several = StepError::Several { first: Box::new(in_use(&[7, 8])), others };
    let failure = Failure::of_convergence(&ConvergeError::Step(failure_of(several)));
    assert_eq!(*failure.holders, [7, 8, 9]);
}
