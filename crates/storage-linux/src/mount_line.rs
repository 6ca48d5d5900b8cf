//! Decides whether a site's line needs mount(8), or can be carried out by a single mount(2). Works on text only.

use sys_mount::MountFlags;

/// How to carry out a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// By a single mount(2) with these flags and data.
    Call { flags: MountFlags, data: String },
    /// By the program mount(8), through bash.
    Helper,
}

/// Options of xfs(5) that mount(8) passes to the kernel unchanged.
const XFS_DATA: &str = "\
    allocsize attr2 discard gqnoenforce gquota grpid grpquota ikeep inode32 inode64 largeio logbsize \
    logbufs noalign noattr2 nodiscard nogrpid noikeep nolargeio noquota norecovery nouuid pqnoenforce \
    pquota prjquota qnoenforce quota sunit swalloc swidth uquota wsync";

/// Decides how to carry out `mount -t <kind> <line>`: by mount(2) if the line has the form `[-o options] <source>
/// <target>` and mount(8) would pass the options to the kernel unchanged.
pub(super) fn way(kind: &str, line: &str, source: &str, target: &str) -> Way {
    read(kind, line, source, target).unwrap_or(Way::Helper)
}

/// Returns whether a site's umount line consists of the mount point only.
pub(super) fn is_plain_unmount(line: &str, target: &str) -> bool {
    !has_shell(line) && shell_words::split(line).is_ok_and(|words| words == [target])
}

fn read(kind: &str, line: &str, source: &str, target: &str) -> Option<Way> {
    if has_shell(line) || has_helper(kind) {
        return None;
    }
    let words = shell_words::split(line).ok()?;
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let options = match words[..] {
        [from, to] if from == source && to == target => "",
        ["-o", options, from, to] | [from, to, "-o", options] if from == source && to == target => {
            options
        }
        _ => return None,
    };
    let mut flags = MountFlags::empty();
    let mut data = Vec::new();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option {
            "defaults" | "rw" => {}
            _ => match flag(option) {
                Some(flag) => flags |= flag,
                None if kind == "xfs" && is_xfs_data(option) => data.push(option),
                None => return None,
            },
        }
    }
    // mount(2) ignores all other flags when it makes a bind mount; mount(8) sets them with a second call.
    let binds_with_more = flags.contains(MountFlags::BIND) && flags != MountFlags::BIND;
    (!binds_with_more).then(|| Way::Call { flags, data: data.join(",") })
}

/// Returns whether mount(8) has a helper program for this type, mount.<type>(8), that does more than call mount(2).
fn has_helper(kind: &str) -> bool {
    matches!(kind, "lustre" | "nfs" | "nfs4" | "gfs2")
}

fn has_shell(line: &str) -> bool {
    // These characters are special to bash, but shell_words, which splits the line, interprets only quotes.
    line.contains([
        '$', '`', ';', '|', '&', '<', '>', '(', ')', '*', '?', '[', '{', '~', '#', '!', '\n',
    ])
}

fn flag(option: &str) -> Option<MountFlags> {
    Some(match option {
        "bind" => MountFlags::BIND,
        "ro" => MountFlags::RDONLY,
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        "strictatime" => MountFlags::STRICTATIME,
        "sync" => MountFlags::SYNCHRONOUS,
        "dirsync" => MountFlags::DIRSYNC,
        _ => return None,
    })
}

fn is_xfs_data(option: &str) -> bool {
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    XFS_DATA.split(' ').any(|known| known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xfs(line: &str) -> Way {
        way("xfs", line, "/dev/loop0", "/mnt/nnf/a")
    }

    fn call(flags: MountFlags, data: &str) -> Way {
        Way::Call { flags, data: data.to_owned() }
    }

    #[test]
    fn plain_lines_become_one_mount_call() {
        assert_eq!(xfs("/dev/loop0 /mnt/nnf/a"), call(MountFlags::empty(), ""));
        assert_eq!(xfs("  /dev/loop0   '/mnt/nnf/a' "), call(MountFlags::empty(), ""));
        assert_eq!(
            xfs("-o noatime,nodev,nouuid,logbsize=256k /dev/loop0 /mnt/nnf/a"),
            call(MountFlags::NOATIME | MountFlags::NODEV, "nouuid,logbsize=256k")
        );
        assert_eq!(xfs("/dev/loop0 /mnt/nnf/a -o defaults"), call(MountFlags::empty(), ""));
        let bind = way("none", "-o bind /dev/loop0 /mnt/nnf/a", "/dev/loop0", "/mnt/nnf/a");
        assert_eq!(bind, call(MountFlags::BIND, ""));
    }

    #[test]
    fn lines_with_unknown_options_other_paths_or_shell_syntax_run_mount_8() {
        for line in [
            "-o _netdev /dev/loop0 /mnt/nnf/a",
            "-o bind,ro /dev/loop0 /mnt/nnf/a",
            "-o loop /dev/loop0 /mnt/nnf/a",
            "-v /dev/loop0 /mnt/nnf/a",
            "/dev/loop0 /mnt/nnf/b",
            "/dev/loop1 /mnt/nnf/a",
            "/dev/loop0 /mnt/nnf/a; true",
            "/dev/loop0 /mnt/nnf/a # why",
            "$(which) /mnt/nnf/a",
            "-o remount /dev/loop0 /mnt/nnf/a",
            "",
        ] {
            assert_eq!(xfs(line), Way::Helper, "{line}");
        }
        assert_eq!(way("lustre", "a:/b /mnt/nnf/a", "a:/b", "/mnt/nnf/a"), Way::Helper);
        assert_eq!(way("gfs2", "/dev/loop0 /mnt/nnf/a", "/dev/loop0", "/mnt/nnf/a"), Way::Helper);
    }

    #[test]
    fn a_line_that_is_only_the_mount_point_is_a_plain_unmount() {
        assert!(is_plain_unmount("/mnt/nnf/a", "/mnt/nnf/a"));
        assert!(is_plain_unmount("'/mnt/nnf/a b'", "/mnt/nnf/a b"));
        for line in ["-l /mnt/nnf/a", "/mnt/nnf/b", "/mnt/nnf/a && true", ""] {
            assert!(!is_plain_unmount(line, "/mnt/nnf/a"), "{line}");
        }
    }
}
