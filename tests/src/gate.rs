//! Which suites this machine can run. A suite that cannot run says why, loudly; asked for and unable, it fails.

use std::{env, fs, path::Path};

use nix::unistd::geteuid;

/// Whether a suite that needs root, loop devices and XFS can run here.
///
/// # Panics
/// When the environment variable `WARREN_TEST_REQUIRE` names `loop` and it cannot.
#[must_use]
pub fn loop_devices() -> bool {
    open("loop", missing_for_loop())
}

/// Whether a real kubectl is here.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names `kubectl` and it is not.
#[must_use]
pub fn kubectl() -> bool {
    open(
        "kubectl",
        (!on_path("kubectl")).then_some("kubectl is missing: install kubernetes-client"),
    )
}

/// Whether a program can be given a clock of its own here.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names `clock` and it cannot.
#[must_use]
pub fn clock() -> bool {
    open("clock", (!on_path("faketime")).then_some("faketime is missing: install faketime"))
}

/// Whether a suite's servers are real ones, as `make kube` has them.
#[must_use]
pub fn real_server() -> bool {
    open(
        "real server",
        (!real_server_is_wanted()).then_some("it needs a real kube-apiserver: run make kube"),
    )
}

/// Whether the environment asks for real servers.
#[must_use]
pub fn real_server_is_wanted() -> bool {
    env::var("WARREN_TEST_SERVER").is_ok_and(|server| server == "real")
}

fn missing_for_loop() -> Option<&'static str> {
    if !geteuid().is_root() {
        Some("root is needed to mount block devices")
    } else if !Path::new("/dev/loop-control").exists() {
        Some("/dev/loop-control is missing: modprobe loop")
    } else if !on_path("mkfs.xfs") {
        Some("mkfs.xfs is missing: install xfsprogs")
    } else if !kernel_has_xfs() {
        Some("the kernel has no XFS: modprobe xfs")
    } else {
        None
    }
}

fn kernel_has_xfs() -> bool {
    fs::read_to_string("/proc/filesystems")
        .is_ok_and(|list| list.lines().any(|line| line.trim() == "xfs"))
        || Path::new("/sys/module/xfs").exists()
}

fn on_path(program: &str) -> bool {
    let path = env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin"])
        .any(|directory| Path::new(directory).join(program).exists())
}

fn open(suite: &str, missing: Option<&str>) -> bool {
    let Some(why) = missing else { return true };
    let required = env::var("WARREN_TEST_REQUIRE").unwrap_or_default();
    assert!(
        !required.split_whitespace().any(|word| word == suite),
        "suite {suite} was asked for and cannot run: {why}"
    );
    say(&format!("SKIPPED suite {suite}: {why}"));
    false
}

#[expect(clippy::print_stderr, reason = "a skipped suite must be seen")]
fn say(line: &str) {
    eprintln!("{line}");
}
