//! Decides which suites this machine can run.
//!
//! A suite that cannot run prints the reason once in each test program, on the program's own stderr: libtest hides what
//! passing tests print. A suite that `WARREN_TEST_REQUIRE` names and that cannot run fails.

use std::{
    collections::BTreeSet,
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Mutex,
};

use nix::unistd::geteuid;

/// Names a suite whose skip is a failure; several by blanks or commas.
const REQUIRE: &str = "WARREN_TEST_REQUIRE";

/// Where RHEL has Open MPI, and on no path before a module is loaded.
const RHEL_OPEN_MPI: &str = "/usr/lib64/openmpi/bin";

/// All there are.
const SUITES: [&str; 20] = [
    "clock",
    "cuts",
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

/// Whether a suite that needs root, loop devices and XFS can run here.
///
/// # Panics
/// When it was asked for and cannot.
#[must_use]
pub fn loop_devices() -> bool {
    open("loop", missing_for_loop())
}

/// Whether a real kubectl is here.
///
/// # Panics
/// When it was asked for and is not.
#[must_use]
pub fn kubectl() -> bool {
    let missing = (!on_path("kubectl")).then_some("kubectl is missing: install kubernetes-client");
    open("kubectl", missing)
}

/// Whether the jq is here that the scripts for Flux use.
///
/// # Panics
/// When it was asked for and is not.
#[must_use]
pub fn jq() -> bool {
    open("jq", (!on_path("jq")).then_some("jq is missing: install jq"))
}

/// Whether Slurm's daemons, with burst buffers in Lua, and munge are here.
///
/// # Panics
/// When they were asked for and are not.
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

/// The Python that has the Kubernetes client of flux-coral2's service, if one is here.
///
/// # Panics
/// When it was asked for and is not.
#[must_use]
pub fn python_kubernetes() -> Option<PathBuf> {
    let python = cache()?.join("python-kubernetes/bin/python");
    const MISSING: &str =
        "Python has no Kubernetes client: run packaging/prerequisites python_kubernetes";
    open("python-kubernetes", (!python.exists()).then_some(MISSING)).then_some(python)
}

/// Where what the tests fetch is kept.
fn cache() -> Option<PathBuf> {
    let home = |name: &str| env::var_os(name).map(PathBuf::from);
    let cache = home("XDG_CACHE_HOME").or_else(|| Some(home("HOME")?.join(".cache")));
    home("WARREN_CACHE").or_else(|| Some(cache?.join("warren")))
}

/// A directory with Open MPI 5 (`openmpi`) and Intel MPI (`intel`), if their ranks can be started here.
///
/// # Panics
/// When they were asked for and cannot.
#[must_use]
pub fn mpi_wheels() -> Option<PathBuf> {
    let home = cache()?.join("mpi-wheels");
    const MISSING: &str = "Open MPI 5 and Intel MPI are missing: run packaging/prerequisites mpi";
    let missing = (!home.exists()).then_some(MISSING);
    (mpi() && open("mpi-wheels", missing)).then_some(home)
}

/// Whether manual pages can be checked here.
///
/// # Panics
/// When it was asked for and cannot.
#[must_use]
pub fn mandoc() -> bool {
    open("mandoc", (!on_path("mandoc")).then_some("mandoc is missing: install mandoc"))
}

/// Whether Open MPI's mpirun can start ranks in network namespaces here.
///
/// # Panics
/// When it was asked for and cannot.
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

/// Whether root may make a network namespace: in a container it needs a capability.
fn makes_networks() -> bool {
    #[expect(clippy::disallowed_methods, reason = "a look at this machine, before anything runs")]
    let done =
        std::process::Command::new("unshare").args(["--net", "--uts", "--mount", "true"]).output();
    done.is_ok_and(|done| done.status.success())
}

/// Whether podman can run containers in namespaces of their own here.
///
/// # Panics
/// When it was asked for and cannot.
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

/// The same with MPICH's mpirun, as Debian names it beside another.
///
/// # Panics
/// When it was asked for and cannot.
#[must_use]
pub fn mpich() -> bool {
    let missing =
        (!on_path("mpirun.mpich")).then_some("MPICH is missing: run packaging/prerequisites mpi");
    mpi() && open("mpich", missing)
}

/// Whether a program can be given a clock of its own here.
///
/// # Panics
/// When it was asked for and cannot.
#[must_use]
pub fn clock() -> bool {
    open("clock", (!on_path("faketime")).then_some("faketime is missing: install faketime"))
}

/// Whether a program can be started as systemd's socket units start it.
///
/// # Panics
/// When it was asked for and cannot.
#[must_use]
pub fn socket_activation() -> bool {
    const MISSING: &str = "systemd-socket-activate is missing: install systemd";
    open("socket-activation", (!on_path("systemd-socket-activate")).then_some(MISSING))
}

/// Whether this is root, for tests that need nothing else.
///
/// # Panics
/// When it was asked for and is not.
#[must_use]
pub fn root() -> bool {
    open("root", (!geteuid().is_root()).then_some("only root can become another user"))
}

/// Whether the kernel can be had to announce a device again, by its directory in sysfs.
///
/// # Panics
/// When it was asked for and cannot.
#[must_use]
pub fn uevents(device: &Path) -> bool {
    let file = device.join("uevent");
    let opened = fs::OpenOptions::new().write(true).open(&file);
    let missing = opened.err().map(|why| format!("{} cannot be written: {why}", file.display()));
    open("uevents", missing.as_deref())
}

/// Whether a suite's servers are real ones, as `make kube` has them.
///
/// # Panics
/// When they were asked for and are not.
#[must_use]
pub fn real_server() -> bool {
    let missing =
        (!real_server_is_wanted()).then_some("it needs a real kube-apiserver: run make kube");
    open("real-server", missing)
}

/// Whether the environment asks for real servers.
#[must_use]
pub fn real_server_is_wanted() -> bool {
    env::var("WARREN_TEST_SERVER").is_ok_and(|server| server == "real")
}

/// Whether a suite can run, of which this is missing.
///
/// # Panics
/// When it was asked for and cannot run, and when a suite is named that there is not.
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
    assert!(!required.contains(&suite), "suite {suite} was asked for and cannot run: {why}");
    say(suite, why);
    false
}

fn say(suite: &str, why: &str) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_new = TOLD.lock().is_ok_and(|mut told| told.insert(suite.to_owned()));
    if is_new {
        // A stderr that is closed leaves nobody to tell.
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
