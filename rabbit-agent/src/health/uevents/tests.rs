use std::path::Path;

use super::*;

/// Recorded events; the first line of the file names the machine on which they were recorded.
const RECORDED: &str = include_str!("recorded.txt");

/// Parses `action@path`, then words that each end with a zero byte (lib/kobject_uevent.c, `kobject_uevent_env`).
fn event(text: &str) -> Uevent {
    let mut words = text.split('\0');
    let (action, path) = words.next().unwrap().split_once('@').unwrap();
    let words: Vec<_> = words.collect();
    let subsystem = words.iter().find_map(|word| word.strip_prefix("SUBSYSTEM=")).unwrap();
    Uevent {
        action: action.to_owned(),
        path: path.to_owned(),
        subsystem: subsystem.to_owned(),
        writes_changed: words.iter().any(|word| word.starts_with("DISK_RO=")),
    }
}

#[test]
fn only_events_of_drives_links_and_namespaces_concern_storage() {
    let lines = RECORDED.lines().filter(|line| !line.starts_with('#'));
    let events: Vec<_> = lines.map(|line| event(&line.replace("\\0", "\0"))).collect();
    let concerns = |wanted: &str| {
        let matching = events.iter().filter(|event| {
            format!("{} {} {}", event.action, event.subsystem, event.path).contains(wanted)
        });
        let verdicts: Vec<_> = matching.map(Uevent::concerns_storage).collect();
        assert!(!verdicts.is_empty(), "{wanted} was recorded");
        verdicts
    };
    for moves in ["remove pci", "add pci", "change nvme ", "add block", "offline gfs2"] {
        assert!(concerns(moves).into_iter().all(|concerns| concerns), "{moves}");
    }
    for moves in ["hwmon", "virtio ", "module", "change block", "bdi", "online gfs2"] {
        assert!(!concerns(moves).into_iter().any(|concerns| concerns), "{moves}");
    }
}

#[test]
fn a_namespace_that_becomes_read_only_concerns_storage() {
    let change = |more: &str| {
        let text = format!("change@/devices/x/nvme0n1\0ACTION=change\0SUBSYSTEM=block\0{more}\0");
        event(&text).concerns_storage()
    };
    assert!(change("DISK_RO=1"));
    assert!(!change("SYNTH_UUID=0"));
}

/// Makes the kernel announce the device by a write to `uevent` in sysfs (Documentation/ABI/testing/sysfs-uevent).
/// The write needs root.
fn announce(device: &Path) {
    std::fs::write(device.join("uevent"), "change").unwrap();
}

/// A device that every kernel has. Events of this device disturb no program.
const NULL: &str = "/sys/class/mem/null";

/// A listener that does not keep up learns that the kernel dropped events, and continues.
#[test]
fn device_events_that_the_kernel_dropped_request_a_check() {
    let device = Path::new(NULL);
    if !gate::uevents(device) {
        return;
    }
    let monitor = open().unwrap();
    announce(device);
    assert!(wait(&monitor, Some(Duration::from_secs(10))).unwrap().is_some());
    // The smallest buffer that the kernel allows has room for two events.
    setsockopt(&monitor, sockopt::RcvBuf, &0).unwrap();
    (0..64).for_each(|_| announce(device));
    assert!(drain(&monitor).unwrap());
    assert!(wait(&monitor, Some(Duration::ZERO)).unwrap().is_none());
    announce(device);
    assert!(wait(&monitor, Some(Duration::from_secs(10))).unwrap().is_some());
}

/// The event has the properties that the kernel sent.
#[test]
fn device_events_of_the_kernel_are_received() {
    let device = Path::new(NULL);
    if !gate::uevents(device) {
        return;
    }
    let monitor = open().unwrap();
    announce(device);
    loop {
        assert!(wait(&monitor, Some(Duration::from_secs(10))).unwrap().is_some());
        let heard = monitor.iter().next().map(|event| Uevent::parse(&event));
        let Some(heard) = heard.filter(|heard| heard.subsystem == "mem") else { continue };
        assert_eq!((&*heard.action, &*heard.path), ("change", "/devices/virtual/mem/null"));
        return;
    }
}

#[tokio::test]
async fn an_event_of_a_pci_function_requests_a_check() {
    let mut functions = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten();
    let function = functions.next().and_then(Result::ok).map(|entry| entry.path());
    let missing = function.is_none().then_some("this machine has no PCI");
    if !gate::open("uevents", missing) || !gate::uevents(function.as_deref().unwrap()) {
        return;
    }
    let health = HealthState::default();
    let mut called = health.check_requests();
    listen(health);
    announce(function.as_deref().unwrap());
    called.changed().await.unwrap();
}
