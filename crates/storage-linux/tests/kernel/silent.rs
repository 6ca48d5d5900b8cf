//! Tests file systems whose server never answers: every call on them waits until the server process ends.

use std::{fs, io::Read, path::Path, process::Child, time::Duration};

use storage::{
    Desired, Host,
    desired::{AllowedRoots, IndexTree, MountPoint},
};
use storage_linux::{DriveConfig, LinuxConfig, LinuxHost, LustreUnmount};

use crate::{
    by_hand::start,
    lab::with_lab,
    scenarios::{World, chain, converge, create_file_system, mount_of, settle},
};

fn silent_server(at: &Path) -> Option<Child> {
    let fuse = Path::new("/dev/fuse").exists();
    if !gate::open("loop", (!fuse).then_some("there is no /dev/fuse: modprobe fuse")) {
        return None;
    }
    fs::create_dir_all(at).unwrap();
    let options = "fd=3,rootmode=40000,user_id=0,group_id=0";
    let script = format!(
        "exec 3<>/dev/fuse; mount -i -t fuse -o {options} silent {} && echo mounted && read wait",
        at.display()
    );
    let mut server = start("bash", &["-c", &script]);
    server.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
    Some(server)
}

#[test]
fn a_mount_with_a_silent_server_is_observed_and_unmounted() {
    with_lab(|lab| {
        let (_, fs) = create_file_system(lab, 0);
        let mount = mount_of(&fs, lab.point("a"));
        let Some(mut server) = silent_server(&mount.target.path()) else { return };
        let error = converge(&lab.rabbit(), &Desired::Mounted(mount.clone())).unwrap_err();
        assert!(error.to_string().contains("occupied by fuse silent"), "{error}");
        assert!(settle(&lab.rabbit(), &Desired::Unmounted(mount)).is_empty());
        drop(server.stdin.take());
        server.wait().unwrap();
    });
}

/// When an allowed root hangs, no path beneath it can be observed. Each observation fails within the deadline and says
/// where in the kernel it hangs.
#[test]
fn an_observation_beneath_a_hanging_root_fails_within_its_deadline() {
    with_lab(|lab| {
        let root = lab.path().join("silent");
        let Some(mut server) = silent_server(&root) else { return };
        let roots = AllowedRoots::new([root]).unwrap();
        let host = LinuxHost::new(LinuxConfig {
            drives: DriveConfig::NvmeNamespaces,
            roots: roots.clone(),
            state: lab.path().join("state"),
            command_deadline: lab.command_deadline,
            mount_deadline: Duration::from_millis(500),
            lustre_unmount: LustreUnmount::default(),
        })
        .unwrap();
        let point = |below: &str| {
            let path = lab.path().join("silent").join(below);
            MountPoint::parse(path.to_str().unwrap(), &roots).unwrap()
        };
        let tree = |below| Desired::IndexTree(IndexTree { root: point(below), links: vec![] });
        for _ in 0..2 {
            let error = host.observe(&tree("wf-0/a")).unwrap_err();
            let text = chain(&error);
            assert!(text.contains("did not end within 1 s (thread "), "{text}");
            assert!(text.contains("fuse"), "where in the kernel: {text}");
        }
        drop(server.stdin.take());
        server.wait().unwrap();
    });
}
