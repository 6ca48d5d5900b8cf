use super::*;

/// The first line says where they are from.
const RECORDED: &str = include_str!("recorded.txt");

fn recorded() -> Vec<Uevent> {
    let lines = RECORDED.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| Uevent::parse(line.replace("\\0", "\0").as_bytes()).unwrap()).collect()
}

#[test]
fn what_a_kernel_sent_is_read() {
    let events = recorded();
    let told = |event: &Uevent| {
        let name = event.path.rsplit('/').next().unwrap().to_owned();
        format!("{} {} {name}", event.action, event.subsystem)
    };
    let pulled: Vec<_> = events.iter().take(5).map(told).collect();
    assert_eq!(
        pulled,
        [
            "remove hwmon hwmon1",
            "remove nvme nvme1",
            "remove nvme-subsystem nvme-subsys1",
            "unbind pci 0000:02:00.0",
            "remove pci 0000:02:00.0"
        ]
    );
}

#[test]
fn what_moves_a_drive_a_link_or_a_namespace_is_told_from_what_does_not() {
    let concerns = |wanted: &str| {
        let events = recorded();
        let named = events.iter().filter(|event| {
            format!("{} {} {}", event.action, event.subsystem, event.path).contains(wanted)
        });
        let verdicts: Vec<_> = named.map(Uevent::concerns_storage).collect();
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
fn a_namespace_that_ceases_to_take_writes_moves() {
    let change = |more: &str| {
        let text = format!("change@/devices/x/nvme0n1\0ACTION=change\0SUBSYSTEM=block\0{more}\0");
        Uevent::parse(text.as_bytes()).unwrap().concerns_storage()
    };
    assert!(change("DISK_RO=1"));
    assert!(!change("SYNTH_UUID=0"));
}

#[test]
fn what_is_no_event_of_the_kernels_is_none() {
    for bytes in
        [&b""[..], b"libudev\0\xfe\xed\xca\xfe", b"add@/x\0ACTION=add\0", b"\xff\xfe@\0SUBSYSTEM"]
    {
        assert_eq!(Uevent::parse(bytes), None);
    }
}

/// One that every kernel has, and that nobody minds.
fn device() -> std::path::PathBuf {
    "/sys/class/mem/null".into()
}

/// The kernel announces anew what `uevent` in sysfs is told to (Documentation/ABI/testing/sysfs-uevent); that needs root.
#[test]
fn the_kernel_is_heard() {
    let socket = Uevents::open().unwrap();
    // Others may have been announced meanwhile.
    let nothing_left = std::iter::repeat_with(|| socket.next()).find_map(Result::err).unwrap();
    assert_eq!(nothing_left.kind(), io::ErrorKind::WouldBlock);
    let device = device();
    if !gate::uevents(&device) {
        return;
    }
    std::fs::write(device.join("uevent"), "change").unwrap();
    let mut heard = Vec::new();
    while !heard
        .iter()
        .any(|received| matches!(received, Received::Event(event) if event.subsystem == "mem"))
    {
        assert!(socket.wait(Some(Duration::from_secs(10))).unwrap(), "{heard:?}");
        heard.push(socket.next().unwrap());
    }
}

/// Whoever does not keep up is told so, and hears on.
#[test]
fn what_was_lost_is_told() {
    let socket = Uevents::open().unwrap();
    // The smallest that the kernel gives: two events fit.
    setsockopt(&socket.0, sockopt::RcvBuf, &0).unwrap();
    let device = device();
    if !gate::uevents(&device) {
        return;
    }
    for _ in 0..64 {
        std::fs::write(device.join("uevent"), "change").unwrap();
    }
    let mut lost = false;
    while let Ok(heard) = socket.next() {
        lost |= heard == Received::Overrun;
    }
    assert!(lost);
}
