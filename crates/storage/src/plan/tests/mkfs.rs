//! Tests the creation and removal of file systems.

use super::*;

#[test]
fn mkfs_runs_only_on_a_device_with_a_suitable_signature() {
    let make = format!("make xfs {} on /dev/loop7: -q /dev/loop7", fs_id(0));
    let wipe = format!("wipe unfinished file system {} from /dev/loop7", fs_id(0));
    let on = |signature| {
        let observed = Observed { volume: Some(visible(signature)), ..Observed::default() };
        plan(&Desired::FileSystemReady(file_system()), &observed)
    };
    assert_eq!(lines(on(Signature::Blank)), [make.as_str()]);
    assert_eq!(lines(on(Signature::HalfMade(fs_id(0)))), [wipe.as_str(), make.as_str()]);
    assert_eq!(on(Signature::Ours(fs_id(0))), Ok(vec![]));
    for other in [Signature::Ours(fs_id(1)), Signature::HalfMade(fs_id(1))] {
        assert!(matches!(on(other), Err(Rejection::WrongFileSystem { .. })));
    }
    let foreign = Signature::Foreign { kind: "ext4".into(), uuid: Some("1-2".into()) };
    let rejection = on(foreign).unwrap_err();
    let text = "/dev/loop7 carries a foreign ext4 signature (UUID 1-2): the agent leaves it alone; wipe it by hand if its data is not needed";
    assert_eq!(rejection.to_string(), text);
}

#[test]
fn a_device_whose_signature_was_not_read_gets_no_file_system_and_no_mount() {
    let unseen = VolumeState { signature: None, ..visible(Signature::Blank) };
    let observed = Observed { volume: Some(unseen), ..Observed::default() };
    let device = || "/dev/loop7".into();
    let planned = plan(&Desired::FileSystemReady(file_system()), &observed);
    assert_eq!(planned, Err(Rejection::SignatureUnread { device: device() }));
    let mounted = plan(&Desired::Mounted(mount()), &observed);
    assert_eq!(mounted, Err(Rejection::SignatureUnread { device: device() }));
    let text = planned.unwrap_err().to_string();
    let (what, remedy) =
        ("/dev/loop7 could not be read", "the agent tries again; if the error persists, check");
    assert!(text.starts_with(what) && text.contains(remedy), "{text}");
}

#[test]
fn a_raw_volume_and_an_empty_mkfs_line_need_no_steps_whatever_the_device_holds() {
    let foreign = visible(Signature::Foreign { kind: "ext4".into(), uuid: None });
    let observed = Observed { volume: Some(foreign), ..Observed::default() };
    let raw = FileSystem { kind: FileSystemKind::Raw, ..file_system() };
    let skipped = FileSystem { mkfs: None, ..file_system() };
    for fs in [raw, skipped] {
        assert_eq!(plan(&Desired::FileSystemReady(fs), &observed), Ok(vec![]));
    }
}

#[test]
fn tear_down_of_a_lost_device_runs_only_hooks_that_need_no_mount() {
    let mut fs = file_system();
    let hook = |phase| Hook {
        id: HookId { scope: fs.scope(), phase, index: 0 },
        command: command("true").unwrap(),
    };
    fs.hooks = [HookPoint::PreTeardown, HookPoint::PostTeardown].map(hook).to_vec();
    let observed =
        Observed { volume: Some(VolumeState::default()), hooks_open: true, ..Observed::default() };
    let expected =
        ["run hook postTeardown[0]: true".into(), format!("forget hook records fs-{}", fs_id(0))];
    assert_eq!(lines(plan(&Desired::FileSystemGone(fs), &observed)), expected);
}

#[test]
fn hooks_of_a_file_system_run_again_once_it_was_torn_down_or_is_made_anew() {
    let mut fs = file_system();
    let hook = |phase| Hook {
        id: HookId { scope: fs.scope(), phase, index: 0 },
        command: command("true").unwrap(),
    };
    fs.hooks = [HookPoint::PostActivate, HookPoint::PreDeactivate].map(hook).to_vec();
    let ran = |phases: &[HookPoint]| -> BTreeSet<HookId> {
        phases.iter().map(|phase| HookId { scope: fs.scope(), phase: *phase, index: 0 }).collect()
    };
    let observation = |signature, phases: &[HookPoint]| Observed {
        volume: Some(visible(signature)),
        hooks: ran(phases),
        hooks_open: true,
        ..Observed::default()
    };
    let steps = |observed: &Observed| lines(plan(&Desired::FileSystemReady(fs.clone()), observed));
    let (forget, open) = (
        format!("forget hook records fs-{}", fs_id(0)),
        format!("open hook records fs-{}", fs_id(0)),
    );
    let again = "run hook postActivate[0]: true";
    let ours = || Signature::Ours(fs_id(0));
    assert_eq!(steps(&observation(ours(), &[HookPoint::PostActivate])), [""; 0]);
    assert_eq!(
        steps(&observation(ours(), &[HookPoint::PostActivate, HookPoint::PreDeactivate])),
        [&forget, &open, again]
    );
    let make = format!("make xfs {} on /dev/loop7: -q /dev/loop7", fs_id(0));
    assert_eq!(
        steps(&observation(Signature::Blank, &[HookPoint::PostActivate])),
        [&forget, &open, &make, again]
    );
}
