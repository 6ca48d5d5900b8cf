use std::os::unix::fs::symlink;

use super::*;

fn put(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Creates a subsystem with a physical and a virtual function, with the files that Linux 6.1 shows.
fn subsystem(root: &Path) {
    for (name, function) in [("nvme0", "0000:01:00.0"), ("nvme1", "0000:01:00.1")] {
        let class = format!("class/nvme/{name}");
        put(root, &format!("{class}/subsysnqn"), "nqn.2019-08.org.qemu:drive0\n");
        put(root, &format!("{class}/model"), "QEMU NVMe Ctrl                          \n");
        put(root, &format!("{class}/transport"), "pcie\n");
        fs::create_dir_all(root.join("pci").join(function)).unwrap();
        symlink(root.join("pci").join(function), root.join(&class).join("device")).unwrap();
    }
    symlink(root.join("pci/0000:01:00.0"), root.join("pci/0000:01:00.1/physfn")).unwrap();
    let subsystem = root.join("class/nvme-subsystem/nvme-subsys1");
    put(&subsystem, "subsysnqn", "nqn.2019-08.org.qemu:drive0\n");
    for name in ["nvme0", "nvme1"] {
        symlink(root.join("class/nvme").join(name), subsystem.join(name)).unwrap();
    }
    block(root, "class/nvme-subsystem/nvme-subsys1/nvme1n1", "3");
    block(root, "class/nvme/nvme1/nvme1c1n1", "3");
    put(root, "class/block/nvme1c1n1/hidden", "1\n");
    put(root, "class/block/sda/dev", "8:0\n");
}

/// Creates the block device of a namespace at `place` and in `class/block`.
fn block(root: &Path, place: &str, nsid: &str) {
    for (attribute, text) in [
        ("nsid", nsid),
        ("hidden", "0"),
        ("dev", "259:4"),
        ("nguid", "01234567-89ab-cdef-0123-456789abcdef"),
        ("device/subsysnqn", "nqn.2019-08.org.qemu:drive0"),
    ] {
        put(root, &format!("{place}/{attribute}"), &format!("{text}\n"));
    }
    fs::create_dir_all(root.join("class/block")).unwrap();
    let place = root.join(place);
    symlink(&place, root.join("class/block").join(name(&place))).unwrap();
}

#[test]
fn physical_functions_are_distinguished_from_virtual_functions() {
    let root = tempfile::tempdir().unwrap();
    subsystem(root.path());
    let controllers = Sysfs::new(root.path()).controllers().unwrap();
    let reported: Vec<_> = controllers
        .iter()
        .map(|controller| (&*controller.name, &*controller.model, controller.is_physical))
        .collect();
    assert_eq!(reported, [("nvme0", "QEMU NVMe Ctrl", true), ("nvme1", "QEMU NVMe Ctrl", false)]);
}

#[test]
fn a_controller_with_an_invalid_nqn_is_skipped_and_reported() {
    let root = tempfile::tempdir().unwrap();
    subsystem(root.path());
    assert!(Sysfs::new(root.path()).misnamed().unwrap().is_empty());
    put(root.path(), "class/nvme/nvme2/subsysnqn", "nqn.1994\u{1b}[31m\n");
    put(root.path(), "class/nvme/nvme3/subsysnqn", "\n");
    put(root.path(), "class/nvme/nvme4/subsysnqn", "nqn.1994-11.com:made up   of blanks\n");
    let found = Sysfs::new(root.path()).misnamed().unwrap();
    let expected = "nvme2 is left out: \"nqn.1994\\u{1b}[31m\" is not an NVMe qualified name: 1 to 256 printable ASCII characters";
    assert_eq!(found, [expected]);
    let controllers = Sysfs::new(root.path()).controllers().unwrap();
    let names: Vec<_> = controllers.iter().map(|controller| &*controller.name).collect();
    assert_eq!(names, ["nvme0", "nvme1", "nvme4"]);
}

#[test]
fn blocks_returns_only_the_device_of_a_namespace_that_is_not_hidden() {
    let root = tempfile::tempdir().unwrap();
    subsystem(root.path());
    let blocks = Sysfs::new(root.path()).blocks().unwrap();
    let [block] = &blocks[..] else { panic!("{blocks:?}") };
    assert_eq!(block.device.path, Path::new("/dev/nvme1n1"));
    assert_eq!(block.device.namespace.to_string(), "nqn.2019-08.org.qemu:drive0:3");
    assert_eq!(block.device.number.to_string(), "259:4");
    assert!(block.may_be("0123456789abcdef0123456789abcdef"));
    assert!(!block.may_be("0123456789abcdef0123456789abcdee"));
    let unbelieved = BlockNode { nguid: String::new(), ..block.clone() };
    assert!(unbelieved.may_be("0123456789abcdef0123456789abcdee"));
}

#[test]
fn a_namespace_is_found_by_its_nqn_and_nsid_with_and_without_multipath() {
    let root = tempfile::tempdir().unwrap();
    subsystem(root.path());
    block(root.path(), "class/nvme/nvme0/nvme0n2", "7");
    let device = |drive: &str, nsid| {
        let subsystem = format!("nqn.2019-08.org.qemu:{drive}").parse().unwrap();
        let id = NamespaceId { subsystem, nsid };
        let blocks = Sysfs::new(root.path()).blocks_of(&id).unwrap();
        blocks.into_iter().map(|block| name(&block.device.path)).collect::<Vec<_>>()
    };
    assert_eq!(
        device("drive0", 3),
        ["nvme1n1"],
        "the hidden paths of a multipath device are left out"
    );
    assert_eq!(device("drive0", 7), ["nvme0n2"]);
    assert!(device("drive0", 1).is_empty());
    assert!(device("drive1", 3).is_empty());
}

#[test]
fn device_without_nqn_returns_a_physical_function_without_a_controller() {
    let root = tempfile::tempdir().unwrap();
    subsystem(root.path());
    let devices = |name: &str| format!("bus/pci/devices/{name}");
    let device_without_nqn = || Sysfs::new(root.path()).device_without_nqn().unwrap();
    put(root.path(), &devices("0000:00:1f.2/class"), "0x010601\n");
    put(root.path(), &devices("0000:01:00.0/class"), "0x010802\n");
    assert_eq!(device_without_nqn().as_deref(), Some("PCI function 0000:01:00.0"));
    let controller = devices("0000:01:00.0/nvme/nvme0/subsysnqn");
    put(root.path(), &controller, "nqn.2019-08.org.qemu:drive0\n");
    put(root.path(), &devices("0000:01:00.1/class"), "0x010802\n");
    put(root.path(), &devices("0000:01:00.1/physfn/class"), "0x010802\n");
    assert_eq!(device_without_nqn(), None);
}

#[test]
fn a_kernel_without_nvme_has_no_controllers_and_an_unreadable_directory_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let sysfs = Sysfs::new(root.path());
    assert!(sysfs.controllers().unwrap().is_empty() && sysfs.blocks().unwrap().is_empty());
    put(root.path(), "class/nvme", "");
    assert!(sysfs.controllers().is_err());
}
