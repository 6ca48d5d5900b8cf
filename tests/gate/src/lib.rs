//! Decides which suites this machine can run.
//!
//! A suite that cannot run prints the reason once in each test program. The reason goes directly to the process's
//! stderr, since libtest hides the output of tests that pass. If `WARREN_TEST_REQUIRE` names the suite,
//! the suite fails instead.

use std::{
    collections::BTreeSet,
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Mutex,
};

use nix::unistd::geteuid;

/// Environment variable with a list of suites, separated by blanks or commas, that must fail instead of being skipped.
const REQUIRE: &str = "WARREN_TEST_REQUIRE";

/// Directory in which RHEL installs Open MPI; the directory is not on PATH until an environment module is loaded.
const RHEL_OPEN_MPI: &str = "/usr/lib64/openmpi/bin";

/// Names of all suites that may be skipped.
const SUITES: [&str; 21] = [
    "clock",
    "cuts",
    "fuse",
    "jq",
    "kubectl",
    "loop",
    "lvm",
    "lvmlockd",
    "mandoc",
    "mpi",
    "mpi-wheels",
    "mpich",
    "namespace",
    "podman",
    "python-kubernetes",
    "real-server",
    "root",
    "slurm",
    "socket-activation",
    "systemd",
    "uevents",
];

/// Returns true if root, loop devices and XFS are available.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn loop_devices() -> bool {
    open("loop", missing_for_loop())
}

/// Returns true if tests can mount a file system in user space.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn fuse() -> bool {
    let missing = if geteuid().is_root() {
        (!Path::new("/dev/fuse").exists()).then_some("/dev/fuse is missing: load the module fuse")
    } else {
        Some("only root can mount")
    };
    open("fuse", missing)
}

/// Returns true if kubectl is installed.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn kubectl() -> bool {
    let missing = (!on_path("kubectl")).then_some("kubectl is missing: install kubernetes-client");
    open("kubectl", missing)
}

/// Returns true if jq is installed, which the scripts for Flux use.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn jq() -> bool {
    open("jq", (!on_path("jq")).then_some("jq is missing: install jq"))
}

/// Returns true if munge and Slurm's daemons, with the plugin burst_buffer/lua, are installed.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn slurm() -> bool {
    const PLUGINS: [&str; 3] = [
        "/usr/lib/x86_64-linux-gnu/slurm-wlm",
        "/usr/lib/aarch64-linux-gnu/slurm-wlm",
        "/usr/lib64/slurm",
    ];
    let has_lua =
        || PLUGINS.iter().any(|path| Path::new(path).join("burst_buffer_lua.so").exists());
    let missing = ["slurmctld", "slurmd", "sbatch", "munged"].iter().find(|name| !on_path(name));
    let missing = match missing {
        Some(_) => Some("Slurm or munge is missing: run packaging/prerequisites slurm"),
        None if !has_lua() => Some("Slurm has no burst_buffer/lua: install its plugins with Lua"),
        None => None,
    };
    open("slurm", missing)
}

/// Returns the path of a Python with the Kubernetes client that flux-coral2's service uses, if one is installed.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn python_kubernetes() -> Option<PathBuf> {
    let python = cache()?.join("python-kubernetes/bin/python");
    const MISSING: &str =
        "Python has no Kubernetes client: run packaging/prerequisites python_kubernetes";
    open("python-kubernetes", (!python.exists()).then_some(MISSING)).then_some(python)
}

/// Returns paths of Pythons with the oldest and the newest version of the Kubernetes client with which flux-coral2's
/// service works: 26 and 32. Version 37 refuses the number 0 as the version from which the service watches.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn python_kubernetes_of_coral2() -> Option<[PathBuf; 2]> {
    let cache = cache()?;
    let pythons =
        ["26", "32"].map(|version| cache.join(format!("python-kubernetes-{version}/bin/python")));
    const MISSING: &str =
        "Python has no old Kubernetes clients: run packaging/prerequisites python_kubernetes";
    let missing = pythons.iter().any(|python| !python.exists()).then_some(MISSING);
    open("python-kubernetes", missing).then_some(pythons)
}

/// Returns the directory in which the tests keep programs that they downloaded.
fn cache() -> Option<PathBuf> {
    let home = |name: &str| env::var_os(name).map(PathBuf::from);
    let cache = home("XDG_CACHE_HOME").or_else(|| Some(home("HOME")?.join(".cache")));
    home("WARREN_CACHE").or_else(|| Some(cache?.join("warren")))
}

/// Returns a directory with Open MPI 5 (`openmpi`) and Intel MPI (`intel`), if this machine can start ranks of both.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn mpi_wheels() -> Option<PathBuf> {
    let home = cache()?.join("mpi-wheels");
    const MISSING: &str = "Open MPI 5 and Intel MPI are missing: run packaging/prerequisites mpi";
    let missing = (!home.exists()).then_some(MISSING);
    (mpi() && open("mpi-wheels", missing)).then_some(home)
}

/// Returns true if mandoc, which checks manual pages, is installed.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn mandoc() -> bool {
    open("mandoc", (!on_path("mandoc")).then_some("mandoc is missing: install mandoc"))
}

/// Returns true if Open MPI's mpirun can start ranks in network namespaces.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn mpi() -> bool {
    let open_mpi = ["mpirun", "orted"];
    let is_there = |name: &&str| on_path(name) || Path::new(RHEL_OPEN_MPI).join(name).exists();
    let tools = ["ip", "unshare", "nsenter", "setpriv"];
    let missing = if !geteuid().is_root() {
        Some("only root can make network namespaces")
    } else if !open_mpi.iter().all(is_there) || !tools.iter().all(|name| on_path(name)) {
        Some("Open MPI or iproute2 is missing: run packaging/prerequisites mpi")
    } else if !makes_networks() {
        Some("`unshare --net` fails: root may make no network namespaces here")
    } else {
        None
    };
    open("mpi", missing)
}

/// Returns true if root may make a network namespace: a container's root may not if the container lacks CAP_SYS_ADMIN.
fn makes_networks() -> bool {
    #[expect(clippy::disallowed_methods, reason = "checks this machine before any test runs")]
    let done =
        std::process::Command::new("unshare").args(["--net", "--uts", "--mount", "true"]).output();
    done.is_ok_and(|done| done.status.success())
}

/// Returns true if podman can run containers inside a new mount namespace and a new network namespace.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn podman() -> bool {
    let tools = ["podman", "crun", "busybox", "ip", "iptables", "unshare", "nsenter"];
    let missing = if !geteuid().is_root() {
        Some("only root can make namespaces of mounts and networks")
    } else if !tools.iter().all(|name| on_path(name)) {
        Some("podman or what it needs is missing: run packaging/prerequisites podman")
    } else if !makes_networks() {
        Some("`unshare --net` fails: root may make no network namespaces here")
    } else {
        None
    };
    open("podman", missing)
}

/// Returns true if MPICH's mpirun can start ranks in network namespaces. Debian names it `mpirun.mpich`.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn mpich() -> bool {
    let missing =
        (!on_path("mpirun.mpich")).then_some("MPICH is missing: run packaging/prerequisites mpi");
    mpi() && open("mpich", missing)
}

/// Returns true if faketime, which shows a program a false wall clock, is installed.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn clock() -> bool {
    open("clock", (!on_path("faketime")).then_some("faketime is missing: install faketime"))
}

/// Returns true if systemd-socket-activate, which starts a program as a socket unit does, is installed.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn socket_activation() -> bool {
    const MISSING: &str = "systemd-socket-activate is missing: install systemd";
    open("socket-activation", (!on_path("systemd-socket-activate")).then_some(MISSING))
}

/// Returns true if the tests run as root. For tests that have no other requirement.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn root() -> bool {
    open("root", (!geteuid().is_root()).then_some("only root can become another user"))
}

/// Returns true if this device's `uevent` file in sysfs can be written: a write to the file makes the kernel announce
/// the device again.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn uevents(device: &Path) -> bool {
    let file = device.join("uevent");
    let opened = fs::OpenOptions::new().write(true).open(&file);
    let missing = opened.err().map(|why| format!("{} cannot be written: {why}", file.display()));
    open("uevents", missing.as_deref())
}

/// Returns true if the suites run against a real kube-apiserver, as in `make kube`.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run.
#[must_use]
pub fn real_server() -> bool {
    let missing =
        (!real_server_is_wanted()).then_some("it needs a real kube-apiserver: run make kube");
    open("real-server", missing)
}

/// Returns true if `WARREN_TEST_SERVER` is `real`.
#[must_use]
pub fn real_server_is_wanted() -> bool {
    env::var("WARREN_TEST_SERVER").is_ok_and(|server| server == "real")
}

/// Returns true if nothing is missing for this suite; otherwise returns false, and prints the reason at the first call.
///
/// # Panics
/// When `WARREN_TEST_REQUIRE` names the suite and the suite cannot run, and when `suite` or `WARREN_TEST_REQUIRE`
/// names an unknown suite.
#[must_use]
pub fn open(suite: &str, missing: Option<&str>) -> bool {
    let required = env::var(REQUIRE).unwrap_or_default();
    let required: Vec<&str> =
        required.split([' ', ',', '\n']).filter(|word| !word.is_empty()).collect();
    for name in required.iter().chain([&suite]) {
        assert!(
            SUITES.contains(name),
            "there is no suite {name:?}; there are {SUITES:?} ({REQUIRE})"
        );
    }
    let Some(why) = missing else { return true };
    assert!(
        !required.contains(&suite),
        "suite {suite} is required by WARREN_TEST_REQUIRE and cannot run: {why}"
    );
    print_skip(suite, why);
    false
}

fn print_skip(suite: &str, why: &str) {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_new = PRINTED.lock().is_ok_and(|mut printed| printed.insert(suite.to_owned()));
    if is_new {
        // An error, such as a closed stderr, is no reason to fail the tests.
        let _ = writeln!(io::stderr(), "SKIPPED: tests that need {suite}: {why}");
    }
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
