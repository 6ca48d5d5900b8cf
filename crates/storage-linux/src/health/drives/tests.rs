use std::{os::unix::fs::symlink, time::Duration};

use nix::{sys::stat::Mode, unistd::mkfifo};
use storage::health::{Link, LinkRate};

use super::*;

fn nqn(number: u8) -> Nqn {
    format!("nqn.2019-08.org.qemu:drive{number}").parse().unwrap()
}

/// Returns the directory of a drive's PCI function.
fn function(sysfs: &Path, number: u8) -> PathBuf {
    sysfs.join(format!("devices/pci0000:00/0000:00:0{number}.0/0000:0{number}:00.0"))
}

/// Creates the files with which Linux 6.1 shows a drive that QEMU emulates in a root port.
fn plant(sysfs: &Path, number: u8) {
    let put = |file: PathBuf, text: &str| {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{text}\n")).unwrap();
    };
    let function = function(sysfs, number);
    for which in ["current", "max"] {
        put(function.join(format!("{which}_link_speed")), "2.5 GT/s PCIe");
        put(function.join(format!("{which}_link_width")), "1");
    }
    let class = sysfs.join(format!("class/nvme/nvme{number}"));
    for (attribute, text) in [
        ("subsysnqn", &*nqn(number).to_string()),
        ("transport", "pcie"),
        ("state", "live"),
        ("hwmon1/temp1_input", "49850"),
        ("hwmon1/temp1_max", "69850"),
        ("hwmon1/temp1_crit", "99850"),
    ] {
        put(class.join(attribute), text);
    }
    symlink(function, class.join("device")).unwrap();
    let block = sysfs.join(format!("class/block/nvme{number}n1"));
    for (attribute, text) in [("nsid", "3"), ("dev", "259:1"), ("hidden", "0"), ("ro", "1")] {
        put(block.join(attribute), text);
    }
    put(block.join("device/subsysnqn"), &nqn(number).to_string());
}

fn well() -> DriveFacts {
    let rate = Some(LinkRate { transfers: 2500, lanes: 1 });
    DriveFacts {
        link: Some(Link::Up { current: rate, most: rate }),
        errors: None,
        temperature: Some(Temperature { now: 49, warning: Some(69), critical: Some(99) }),
        controller: "live".into(),
        read_only: Some(vec![3]),
    }
}

#[test]
fn a_drive_with_an_invalid_nqn_is_reported() {
    let sysfs = tempfile::tempdir().unwrap();
    plant(sysfs.path(), 1);
    let class = sysfs.path().join("class/nvme/nvme2");
    fs::create_dir_all(&class).unwrap();
    fs::write(class.join("subsysnqn"), "nqn.1994\t1\n").unwrap();
    let (found, unread) = read_at(sysfs.path(), Duration::from_secs(60));
    assert_eq!(found.into_keys().collect::<Vec<_>>(), [nqn(1)]);
    assert!(unread[0].starts_with("nvme2 is left out: \"nqn.1994\\t1\""), "{unread:?}");
}

fn read_at(sysfs: &Path, deadline: Duration) -> (BTreeMap<Nqn, DriveFacts>, Vec<String>) {
    let mut unread = Vec::new();
    (read(sysfs, &BoundedCalls::new(deadline), &mut unread), unread)
}

const LONG: Duration = Duration::from_secs(60);

/// Makes an attribute unreadable by a directory in its place: reading a directory fails with an error that
/// does not mean absence.
fn spoil(attribute: &Path) {
    fs::remove_file(attribute).unwrap();
    fs::create_dir(attribute).unwrap();
}

#[test]
fn a_drive_is_read_with_its_link_temperature_and_namespaces() {
    let sysfs = tempfile::tempdir().unwrap();
    assert_eq!(read_at(sysfs.path(), LONG), (BTreeMap::new(), Vec::new()));
    plant(sysfs.path(), 0);
    let found = BTreeMap::from([(nqn(0), well())]);
    assert_eq!(read_at(sysfs.path(), LONG), (found, Vec::new()));
}

#[test]
fn an_unreadable_file_of_a_drive_hides_only_its_own_fact() {
    let sysfs = tempfile::tempdir().unwrap();
    let (class, block) = (sysfs.path().join("class/nvme/nvme0"), "class/block/nvme0n1/ro");
    for (spoiled, facts) in [
        (function(sysfs.path(), 0).join("current_link_speed"), DriveFacts { link: None, ..well() }),
        (class.join("hwmon1/temp1_input"), DriveFacts { temperature: None, ..well() }),
        (sysfs.path().join(block), DriveFacts { read_only: None, ..well() }),
    ] {
        for part in ["class", "devices"] {
            #[expect(clippy::disallowed_methods, reason = "the test planted this tree")]
            let _ = fs::remove_dir_all(sysfs.path().join(part));
        }
        plant(sysfs.path(), 0);
        plant(sysfs.path(), 1);
        spoil(&spoiled);
        let (found, unread) = read_at(sysfs.path(), LONG);
        assert_eq!(found, BTreeMap::from([(nqn(0), facts), (nqn(1), well())]));
        let [why] = &unread[..] else { panic!("{unread:?}") };
        assert!(why.contains("nqn.2019-08.org.qemu:drive0") && why.contains("directory"), "{why}");
    }
}

/// A read from a drive that is being reset hangs; a pipe without a writer simulates such a read.
#[test]
fn a_hanging_drive_hides_only_its_temperature() {
    let sysfs = tempfile::tempdir().unwrap();
    let pipe = |number: u8| {
        let path = sysfs.path().join(format!("class/nvme/nvme{number}/hwmon1/temp1_input"));
        fs::remove_file(&path).unwrap();
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        path
    };
    for number in 0..3 {
        plant(sysfs.path(), number);
    }
    let pipes = [pipe(0), pipe(1)];
    fs::write(sysfs.path().join("class/nvme/nvme1/state"), "resetting\n").unwrap();
    let (found, unread) = read_at(sysfs.path(), Duration::from_secs(2));
    let cold = DriveFacts { temperature: None, ..well() };
    let resetting = DriveFacts { controller: "resetting".into(), ..cold.clone() };
    assert_eq!(found, BTreeMap::from([(nqn(0), cold), (nqn(1), resetting), (nqn(2), well())]));
    let [why] = &unread[..] else {
        panic!("a controller that is not live gets no command: {unread:?}")
    };
    let expected =
        "drive nqn.2019-08.org.qemu:drive0: its temperature: the observation did not end";
    assert!(why.starts_with(expected), "{why}");
    fs::write(&pipes[0], "49850\n").unwrap();
}

#[test]
fn degrees_returns_none_for_a_threshold_of_zero_kelvin() {
    assert_eq!(degrees(Some("-273150".into())), None);
    assert_eq!(degrees(Some("-20000".into())), Some(-20));
}
