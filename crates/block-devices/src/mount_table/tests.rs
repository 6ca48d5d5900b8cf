use super::*;

#[test]
fn unescape_decodes_the_octal_codes_of_the_kernel() {
    assert_eq!(unescape(r"/mnt/a\040b\134c\011"), "/mnt/a b\\c\t");
    assert_eq!(unescape(r"/mnt/\134040"), r"/mnt/\040");
    assert_eq!(unescape(r"tail\"), r"tail\");
    assert_eq!(unescape(r"\04é"), r"\04é");
}

/// Lines from Linux 6.18: with no, one and two optional fields, with a space in a name, and with an empty source.
const TABLE: &str = "\
36 24 259:3 / / rw,relatime - xfs /dev/nvme0n1p3 rw
41 36 7:2 / /mnt/nnf/a\\040b rw,nosuid shared:9 - xfs /dev/loop2 rw,attr2
42 41 0:61 /sub/\\134 /mnt/nnf/a\\040b rw shared:1 master:2 - fuse.sshfs  rw,user_id=5
43 36 0:6 /loop2 /mnt/nnf/raw rw - devtmpfs devtmpfs rw
";

#[test]
fn lines_of_the_kernel_are_parsed() {
    let found = |wanted: &str| -> Vec<Entry> {
        let lines = lines_at(TABLE, |point| point == Path::new(wanted));
        entries(&lines).collect::<io::Result<_>>().unwrap()
    };
    let [lower, upper] = &found("/mnt/nnf/a b")[..] else { panic!("two are there") };
    assert_eq!((lower.id, lower.device), (41, DeviceNumber { major: 7, minor: 2 }));
    assert_eq!((lower.kind.as_str(), lower.source.as_str()), ("xfs", "/dev/loop2"));
    assert_eq!((upper.kind.as_str(), upper.source.as_str()), ("fuse.sshfs", ""));
    assert_eq!(upper.root, r"/sub/\");
    assert_eq!(found("/mnt/nnf/raw")[0].root, "/loop2");
    assert!(found("/mnt/nnf").is_empty());
}

/// A user may cause a malformed line; it must not keep the agent from reading other lines.
#[test]
fn malformed_lines_of_other_mount_points_are_skipped() {
    let table = format!("x y\n{TABLE}7 7 nonsense / /home rw - a b\n");
    let raw = lines_at(&table, |point| point == Path::new("/mnt/nnf/raw"));
    assert!(entries(&raw).all(|entry| entry.is_ok()));
    assert!(entries(&table).any(|entry| entry.is_err()));
}

#[test]
fn a_mount_and_its_file_system_are_read_only_separately() {
    let read_only = |options: &str, of_all: &str| {
        let line = format!("41 36 7:2 / /mnt/a {options} shared:9 - xfs /dev/loop2 {of_all}");
        let info = MountInfo::from_line(&line).unwrap();
        let options = Options::new(&Entry::from_info(&info).unwrap(), &info);
        (options.mount_read_only, options.super_read_only)
    };
    assert_eq!(read_only("rw,relatime", "rw,attr2"), (false, false));
    assert_eq!(read_only("rw,relatime", "ro,errors=remount-ro"), (false, true));
    assert_eq!(read_only("ro,nosuid", "rw"), (true, false));
}

#[test]
fn kind_at_returns_a_type_only_for_a_mount_point_itself() {
    assert_eq!(kind_at(Path::new("/proc")).unwrap().as_deref(), Some("proc"));
    assert_eq!(kind_at(Path::new("/proc/self")).unwrap(), None);
}
